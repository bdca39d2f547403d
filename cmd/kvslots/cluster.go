package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/settings"
	"github.com/kvslots/kvslots/kvslots/natsstore"
	"github.com/kvslots/kvslots/natsembed"
)

const clusterHelp = `A cluster is three or five machines, on each of which kvslots serve --cluster runs. These commands run on one of
them, as the gateway's user, since they use the socket in its data directory.`

func clusterCommand(env settings.Environment) *cobra.Command {
	command := &cobra.Command{
		Use:   "cluster",
		Short: "Show and change a cluster of gateways",
		Long:  clusterHelp,
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(clusterSecretCommand(), clusterStatusCommand(env), clusterStepDownCommand(env), clusterRemoveCommand(env))
	return command
}

func clusterSecretCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "secret",
		Short: "Print a new secret for --cluster-secret-file",
		Long:  "Print a new secret: 32 random bytes in hexadecimal digits. Give the same file to all nodes, readable by their user only.",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			secret := make([]byte, natsembed.MinClusterSecret)
			_, _ = rand.Read(secret) // it never fails
			_, err := fmt.Fprintln(command.OutOrStdout(), hex.EncodeToString(secret))
			return err
		},
	}
}

// onNode makes a command that uses the node on a data directory.
func onNode(env settings.Environment, use, short, long string, args cobra.PositionalArgs, do func(ctx context.Context, command *cobra.Command, nc *nats.Conn, args []string) error) *cobra.Command {
	var dir settings.Node
	command := newCommand(env, &dir, use, short, long+"\n\n"+clusterHelp, args, func(command *cobra.Command, args []string) error {
		nc, err := natsembed.Dial(dir.DataDir)
		if err != nil {
			return fmt.Errorf("is the gateway of this directory running? %w", err)
		}
		defer nc.Close()
		return do(command.Context(), command, nc, args)
	})
	dir.AddFlags(command.Flags())
	return command
}

func clusterStatusCommand(env settings.Environment) *cobra.Command {
	var asJSON bool
	command := onNode(env, "status", "Show the nodes and their copies",
		"Show each node: whether it runs, whether its copy has all entries, how many it lacks, its version, and its disk.", cobra.NoArgs,
		func(ctx context.Context, command *cobra.Command, nc *nats.Conn, _ []string) error {
			nodes, err := natsembed.ClusterStatus(ctx, nc, "KV_"+natsstore.Bucket)
			if err != nil {
				return err
			}
			return report(command.OutOrStdout(), asJSON, nodes, nodeTable(nodes))
		})
	addJSONFlag(command.Flags(), &asJSON)
	return command
}

func nodeTable(nodes []natsembed.NodeStatus) string {
	rows := [][]string{{"NODE", "STATE", "COPY", "LACKS", "STORE", "DISK FREE", "VERSION"}}
	for _, n := range nodes {
		row := []string{n.Name, "missing", "", "", "", "", n.Version}
		if n.Running {
			row[1], row[4], row[5] = "running", mebibytes(n.Store), mebibytes(n.Free)
		}
		if n.Copy != nil {
			row[2], row[3] = copyState(n.Copy), fmt.Sprint(n.Copy.Lag)
		}
		rows = append(rows, row)
	}
	return table(rows)
}

func copyState(c *natsembed.Copy) string {
	switch {
	case c.Leader:
		return "leader"
	case c.Missing:
		return "missing"
	case c.Current:
		return "current"
	}
	return "behind"
}

func mebibytes(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func clusterStepDownCommand(env settings.Environment) *cobra.Command {
	return onNode(env, "step-down NODE", "Let other nodes lead what NODE leads",
		"Let other nodes lead what NODE leads, before it is stopped without SIGTERM, which does the same.", cobra.ExactArgs(1),
		func(ctx context.Context, _ *cobra.Command, nc *nats.Conn, args []string) error {
			return natsembed.NodeStepDown(ctx, nc, args[0])
		})
}

func clusterRemoveCommand(env settings.Environment) *cobra.Command {
	return onNode(env, "remove NODE", "Take a dead NODE out of the cluster",
		"Take NODE, which must not run, out of the cluster: it will not come back, and another one may take its place under a new name.", cobra.ExactArgs(1),
		func(ctx context.Context, _ *cobra.Command, nc *nats.Conn, args []string) error {
			nodes, err := natsembed.ClusterStatus(ctx, nc, "KV_"+natsstore.Bucket)
			if err != nil {
				return err
			}
			for _, n := range nodes {
				if n.Running {
					return natsembed.NodeRemove(ctx, nc, n.Name, args[0])
				}
			}
			return natsembed.ErrNoCluster
		})
}
