package natsembed

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
)

const (
	// DefaultClusterPort is the port of a node's routes if its entry has none: NATS's own for routes.
	DefaultClusterPort = 6222

	// MinClusterSecret is the least length of Cluster.Secret, in bytes.
	MinClusterSecret = 32
)

// Cluster makes the server a node of a cluster, in which each node has a copy of the bucket. All nodes have the same
// list and the same secret.
type Cluster struct {
	// Nodes are the nodes, 3 or 5: see ParseNode. The order does not matter.
	Nodes []Node

	// Self is the name of this node.
	Self string

	// Secret is at least MinClusterSecret random bytes, from which the certificates of the routes are derived.
	Secret []byte

	// Cert, Key and CA name PEM files, in place of Secret: the certificate that this node shows to the others, and the
	// authorities that issued theirs.
	Cert, Key, CA string

	// Version is that of the program, for operators.
	Version string

	// Format is what entries mean: nodes with another one are refused.
	Format int
}

// Node is one machine of a cluster.
type Node struct {
	Name string // the entry of the list; without the port if that is DefaultClusterPort
	Host string
	Port int
}

// Addr is the host:port at which the node accepts the routes of others.
func (n Node) Addr() string { return net.JoinHostPort(n.Host, strconv.Itoa(n.Port)) }

// ParseNode parses an entry of a list of nodes, host or host:port.
func ParseNode(entry string) (Node, error) {
	host, text, err := net.SplitHostPort(entry)
	if err != nil {
		host, text = strings.Trim(entry, "[]"), strconv.Itoa(DefaultClusterPort)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 || host == "" || strings.ContainsAny(host, " /@*>\t\r\n") {
		return Node{}, errors.New("a node is HOST or HOST:PORT, with a port of 1 to 65535")
	}
	n := Node{Host: host, Port: int(port)}
	if n.Name = n.Addr(); port == DefaultClusterPort {
		n.Name = host
	}
	return n, nil
}

// FindSelf returns the name of the node that is this machine: the only one whose host is an address of it, or its name.
func FindSelf(nodes []Node) (string, error) {
	local := map[string]bool{}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok {
			local[network.IP.String()] = true
		}
	}
	name, _ := os.Hostname()
	var found []string
	for _, n := range nodes {
		resolved, _ := net.LookupHost(n.Host)
		if name != "" && n.Host == name || slices.ContainsFunc(resolved, func(ip string) bool { return local[ip] }) {
			found = append(found, n.Name)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%d of the nodes have an address of this machine", len(found))
	}
	return found[0], nil
}

// list returns the names of all nodes, sorted.
func (c *Cluster) list() []string {
	names := make([]string, 0, len(c.Nodes))
	for _, n := range c.Nodes {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}

func (c *Cluster) self() Node {
	return c.Nodes[slices.IndexFunc(c.Nodes, func(n Node) bool { return n.Name == c.Self })]
}

// Validate returns an error if the cluster is invalid, or does not go with a Sync.
func (c *Cluster) Validate(sync Sync) error {
	names := c.list()
	switch {
	case len(names) != 3 && len(names) != 5:
		return fmt.Errorf("a cluster has 3 or 5 nodes, and %d are given", len(names))
	case len(slices.Compact(slices.Clone(names))) != len(names):
		return errors.New("a node is given twice")
	case !slices.Contains(names, c.Self):
		return fmt.Errorf("this node must be one of %s", strings.Join(names, ", "))
	case sync == SyncInterval:
		return errors.New("sync interval does not go with a cluster: a machine that has lost its last second would come back as a complete copy")
	case c.CA == "" && len(c.Secret) < MinClusterSecret:
		return fmt.Errorf("the secret of a cluster has at least %d bytes", MinClusterSecret)
	case c.CA != "" && (c.Cert == "" || c.Key == ""):
		return errors.New("certificates of a cluster's routes need a certificate, a key and authorities")
	}
	return nil
}
