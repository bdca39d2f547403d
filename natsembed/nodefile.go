package natsembed

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// nodeFile is in the data directory of a node. It names the cluster: nats-server would delete the streams of another
// cluster, or of a single server, half a minute after its start.
const nodeFile = "cluster"

type nodeOf struct {
	Cluster string `json:"cluster"` // see Cluster.id
	Node    string `json:"node"`    // its name
	Run     string `json:"run"`     // random: tells two machines with one name apart
}

// checkMode returns an error if the directory belongs to a single server and the server is to be a node, or the other way round.
// At a node's first start it writes the file.
func (d *dataDir) checkMode(c *Cluster) (of nodeOf, err error) {
	path := filepath.Join(d.path, nodeFile)
	data, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := json.Unmarshal(data, &of); err != nil {
			return of, fmt.Errorf("data directory %s: %s: %w", d.path, nodeFile, err)
		}
		return of, d.checkNode(of, c)
	case !errors.Is(err, fs.ErrNotExist):
		return of, fmt.Errorf("data directory: %w", err)
	case c == nil:
		return of, nil
	}
	streams, err := d.Streams()
	if err != nil {
		return of, err
	}
	if len(streams) > 0 {
		return of, fmt.Errorf("data directory %s is that of a single gateway: start the cluster with empty directories", d.path)
	}
	of = nodeOf{c.id(), c.Self, rand.Text()}
	if data, err = json.Marshal(of); err != nil {
		return of, err
	}
	return of, d.Write(path, data)
}

func (d *dataDir) checkNode(of nodeOf, c *Cluster) error {
	switch {
	case c == nil:
		return fmt.Errorf("data directory %s is that of node %s of a cluster: give --cluster, or another directory", d.path, of.Node)
	case of.Cluster != c.id():
		return fmt.Errorf("data directory %s is that of another cluster: its id is %s, and that of the given secret is %s", d.path, of.Cluster, c.id())
	case of.Node != c.Self:
		return fmt.Errorf("data directory %s is that of node %s, and this one is %s", d.path, of.Node, c.Self)
	}
	return nil
}
