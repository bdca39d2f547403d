package settings

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kvslots/kvslots/natsembed"
)

const (
	clusterFlag       = "cluster"
	clusterSecretFlag = "cluster-secret-file"
	clusterSelfFlag   = "cluster-self"
)

// Cluster has the flags of a node.
type Cluster struct {
	nodes      []natsembed.Node
	secretPath string
	self       string
	tls        keyPair
	authority  string

	secret []byte
}

func (c *Cluster) addFlags(flags table) {
	in := needs("", clusterFlag)
	flags.row(clusterFlag, list(&c.nodes, "nodes", natsembed.ParseNode), "run as one of these 3 or 5 machines, each with a copy of the bucket (comma-separated HOST or HOST:PORT, the same list on each; the port of their connections is 6222 without one)", embedded)
	flags.row(clusterSecretFlag, plain(&c.secretPath, ""), "file with the secret that all nodes have: kvslots cluster secret writes one", secretFile, embedded, in)
	flags.row(clusterSelfFlag, plain(&c.self, ""), "which of --cluster is this machine; by default the one with its address or name", embedded, in)
	flags.row("cluster-tls-cert", plain(&c.tls.cert, ""), "file with this node's certificate for the others, in place of --cluster-secret-file", embedded, in)
	flags.row("cluster-tls-key", plain(&c.tls.key, ""), certificateKeyUsage, secretFile, embedded, in)
	flags.row("cluster-tls-ca", plain(&c.authority, ""), "file with the authorities, one of which must have issued the certificates of all nodes", embedded, in)
}

// Given reports whether this gateway is a node.
func (c *Cluster) Given() bool { return len(c.nodes) > 0 }

// check reads the secret, and finds out which node this is.
func (c *Cluster) check(flags *pflag.FlagSet, sync natsembed.Sync) error {
	if !c.Given() {
		return nil
	}
	var found problems
	certificates := given(flags, "cluster-tls-cert", "cluster-tls-key", "cluster-tls-ca")
	switch {
	case len(certificates) == 0 && c.secretPath == "":
		found.add(Usagef("--%s needs --%s: kvslots cluster secret writes one", clusterFlag, clusterSecretFlag))
	case len(certificates) > 0 && c.secretPath != "":
		found.add(excluded(clusterSecretFlag, "cluster-tls-cert"))
	case len(certificates) > 0 && len(certificates) < 3:
		found.add(Usagef("--cluster-tls-cert, --cluster-tls-key and --cluster-tls-ca go together"))
	}
	if c.secretPath != "" {
		content, err := ReadSecret(nil, c.secretPath)
		if c.secret = bytes.TrimSpace(content); err != nil {
			found.add(fmt.Errorf("--%s: %w", clusterSecretFlag, err))
		} else if len(c.secret) < natsembed.MinClusterSecret {
			found.add(Usagef("--%s: the secret has %d bytes, and must have at least %d: kvslots cluster secret writes one", clusterSecretFlag, len(c.secret), natsembed.MinClusterSecret))
		}
	}
	if found.add(c.findSelf()); found.err() != nil {
		return found.err()
	}
	if err := c.config().Validate(sync); err != nil {
		return Usagef("--%s: %w", clusterFlag, err)
	}
	return nil
}

func (c *Cluster) findSelf() (err error) {
	var names []string
	for _, n := range c.nodes {
		names = append(names, n.Name)
		if c.self == n.Name || c.self == n.Addr() {
			c.self = n.Name
			return nil
		}
	}
	if c.self != "" {
		return Usagef("--%s must be one of --%s, which are %s", clusterSelfFlag, clusterFlag, strings.Join(names, ", "))
	}
	if c.self, err = natsembed.FindSelf(c.nodes); err != nil {
		return Usagef("--%s: %w: say with --%s which of %s this is", clusterFlag, err, clusterSelfFlag, strings.Join(names, ", "))
	}
	return nil
}

// config returns the configuration for the embedded server, or nil without --cluster.
func (c *Cluster) config() *natsembed.Cluster {
	if !c.Given() {
		return nil
	}
	return &natsembed.Cluster{
		Nodes: c.nodes, Self: c.self, Secret: c.secret, Cert: c.tls.cert, Key: c.tls.key, CA: c.authority,
	}
}

// Self returns the name of this node.
func (c *Cluster) Self() string { return c.self }

// Nodes returns how many nodes there are, each of which has a copy.
func (c *Cluster) Nodes() int { return len(c.nodes) }

// Node has the flag of commands that use the node on a data directory.
type Node struct{ DataDir string }

func (n *Node) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&n.DataDir, dataDirFlag, defaultDataDir, "data directory of the node on this machine, which is running")
}

func (n *Node) check(*pflag.FlagSet, io.Reader) error {
	if n.DataDir == "" {
		return Usagef("--%s must not be empty", dataDirFlag)
	}
	return nil
}
