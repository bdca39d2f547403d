#!/usr/bin/env bash
# Runs a command, such as the tests of a client of dflockd, in a copy of that client, while
# three gateways serve dflockd's TCP protocol on loopback:
#
#	clients.sh COPY COMMAND [ARGUMENT…]
#
# The command finds their addresses in the environment:
#
#	DFLOCKD_ADDR       without access control: 127.0.0.1:6388, the default of the clients
#	DFLOCKD_AUTH_ADDR  with the token in DFLOCKD_AUTH_TOKEN, which is secret123
#	DFLOCKD_TLS_ADDR   with TLS; DFLOCKD_TLS_CA is the file with the authority of localhost
#
# DEFAULT_LEASE_TTL is the lease of requests without one, in seconds: by default 33. The exit
# code is that of the command.
set -euo pipefail

if [ $# -lt 2 ] || [ ! -d "$1" ]; then
	echo "usage: $0 COPY COMMAND [ARGUMENT…]" >&2
	exit 2
fi
copy=$1
shift
dir=$(mktemp -d)
gateways=()
stop() {
	[ ${#gateways[@]} -eq 0 ] || kill "${gateways[@]}" || true
	wait || true
	rm -rf "$dir"
}
trap stop EXIT

(cd "$(dirname "$0")/../.." && CGO_ENABLED=0 go build -o "$dir/kvslots" ./cmd/kvslots)
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
	-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$dir/key.pem" -out "$dir/cert.pem" 2>/dev/null

export DFLOCKD_ADDR=127.0.0.1:6388 DFLOCKD_AUTH_ADDR=127.0.0.1:6389 DFLOCKD_TLS_ADDR=127.0.0.1:6390
export DFLOCKD_AUTH_TOKEN=secret123 DFLOCKD_TLS_CA=$dir/cert.pem

serve() { # ADDRESS [FLAG…]
	local log="$dir/log.${#gateways[@]}"
	"$dir/kvslots" serve --http-addr 127.0.0.1:0 --tcp-addr "$1" --data-dir "$dir/data.${#gateways[@]}" \
		--default-lease-ttl "${DEFAULT_LEASE_TTL:-33}" "${@:2}" 2>"$log" &
	gateways+=($!)
	until grep -q '"message":"listening"' "$log"; do
		kill -0 "${gateways[-1]}" 2>/dev/null || { cat "$log" >&2; exit 1; }
		sleep 0.1
	done
}
serve "$DFLOCKD_ADDR"
KVSLOTS_AUTH_TOKEN=$DFLOCKD_AUTH_TOKEN serve "$DFLOCKD_AUTH_ADDR"
serve "$DFLOCKD_TLS_ADDR" --tls-cert "$dir/cert.pem" --tls-key "$dir/key.pem"

(cd "$copy" && "$@")
