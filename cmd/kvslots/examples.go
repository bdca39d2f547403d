package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// examples are shown by --help and in the man pages, by the command's path without kvslots.
var examples = map[string]string{
	"serve": `kvslots serve --data-dir /var/lib/kvslots
kvslots serve --http-addr :8080 --auth-token-file token
kvslots serve --cluster a.example,b.example,c.example --cluster-secret-file /etc/kvslots/secret
kvslots serve --nats-url nats://a:4222,nats://b:4222,nats://c:4222 --replicas 3
kvslots serve --config /etc/kvslots.yaml --check`,
	"register":          "kvslots register --new --count 5 >pool\nkvslots register @pool --count 6 --name \"test accounts\"",
	"inspect":           `kvslots inspect @pool`,
	"watch":             "kvslots watch @pool\nkvslots watch --key nightly",
	"delete":            `kvslots delete @pool`,
	"ls":                "kvslots ls --contended\nkvslots ls --holder host7",
	"top":               "kvslots top\nkvslots top --once --json",
	"holders":           "kvslots holders nightly\nkvslots holders @pool",
	"line":              `kvslots line nightly`,
	"evict":             `kvslots evict nightly --position 0 --fence 1795449199736827`,
	"out":               `kvslots out @pool 3 --reason "screen broken"`,
	"in":                `kvslots in @pool 3`,
	"pause":             `kvslots pause nightly --reason "upgrade till 10:00"`,
	"resume":            `kvslots resume nightly`,
	"resize":            `kvslots resize builds --limit 8`,
	"borrow":            `eval "$(kvslots borrow @pool --ttl 10m)" || exit`,
	"renew":             `kvslots renew @pool --ttl 10m`,
	"return":            `kvslots return @pool`,
	"run":               "kvslots run @pool --wait 1m -- make test\nkvslots run @pool -c 'echo $KVSLOTS_POSITION'",
	"lock":              "kvslots lock nightly -- make report\nkvslots lock nightly -n -q -- make report",
	"sem":               `kvslots sem builds --limit 4 --wait 10m -- make`,
	"backup":            "kvslots backup /var/backups/kvslots --data-dir /var/lib/kvslots\nkvslots backup --nats-url nats://a:4222 kvslots.backup",
	"restore":           `kvslots restore --replace /var/backups/kvslots --data-dir /var/lib/kvslots`,
	"cluster secret":    "kvslots cluster secret >secret",
	"cluster status":    "kvslots cluster status --data-dir /var/lib/kvslots",
	"cluster step-down": `kvslots cluster step-down a.example`,
	"cluster remove":    `kvslots cluster remove c.example`,
	"cosmo acquire":     `kvslots cosmo acquire send_mail_job --jid job-1 --limit 2 --duration 5m`,
	"cosmo release":     `kvslots cosmo release send_mail_job/0 --jid job-1`,
	"cosmo list":        `kvslots cosmo list send_mail_job`,
	"cosmo run":         `kvslots cosmo run send_mail_job --limit 2 --duration 5m -- ./send-mail`,
	"bench":             `kvslots bench --server http://127.0.0.1:8080`,
	"ready":             `kvslots ready --server http://127.0.0.1:8080`,
	"completion":        `source <(kvslots completion bash)`,
}

func addExamples(command *cobra.Command) {
	lines := examples[strings.TrimPrefix(command.CommandPath(), "kvslots ")]
	if lines != "" {
		command.Example = "  " + strings.ReplaceAll(lines, "\n", "\n  ")
	}
	for _, below := range command.Commands() {
		addExamples(below)
	}
}
