#!/bin/sh
# load dns beside dnsperf, one core each, against the same name server.
#
#   sh bench/dns/run.sh [ROUNDS] [SECONDS]
#
# Needs nsd, dnsperf and taskset (apt-get install nsd dnsperf util-linux) and
# two cores: the server has the first, the generator the second. Rounds are
# interleaved. dnsperf runs with one socket (its default) and with four, and is
# credited with the better of the two in each round.
set -eu
rounds=${1:-5} seconds=${2:-3} port=${PORT:-5399}
root=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'kill "$nsd" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT INT TERM

(cd "$root" && CGO_ENABLED=0 go build -trimpath -o "$dir/shuultuur" ./cmd/shuultuur)
cat >"$dir/nsd.conf" <<EOF
server:
  server-count: 1
  ip-address: 127.0.0.1@$port
  zonesdir: "$dir"
  username: ""
  chroot: ""
  logfile: "$dir/nsd.log"
  pidfile: "$dir/nsd.pid"
  database: ""
  xfrdfile: "$dir/xfrd.state"
  zonelistfile: "$dir/zone.list"
  rrl-ratelimit: 0
remote-control:
  control-enable: no
zone:
  name: example.com
  zonefile: example.com.zone
EOF
awk 'BEGIN {
	print "$ORIGIN example.com.\n$TTL 300\n@ SOA ns hostmaster 1 3600 600 86400 300\n@ NS ns\nns A 127.0.0.1"
	for (i = 0; i < 1000; i++) printf "h%d A 192.0.2.%d\n", i, i % 250
}' >"$dir/example.com.zone"
awk 'BEGIN { for (i = 0; i < 1000; i++) printf "h%d.example.com A\n", i }' >"$dir/queries"

taskset -c 0 nsd -d -c "$dir/nsd.conf" >"$dir/out" 2>&1 &
nsd=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do
	"$dir/shuultuur" load dns -count 1 -timeout 0.2 "127.0.0.1:$port" "$dir/queries" | grep -q NOERROR && break
done

theirs() {
	taskset -c 1 dnsperf -s 127.0.0.1 -p "$port" -d "$dir/queries" -l "$seconds" -c "$1" | awk '/Queries per second/ { printf "%d\n", $4 }'
}
ours() {
	taskset -c 1 "$dir/shuultuur" load dns -seconds "$seconds" "127.0.0.1:$port" "$dir/queries" | awk '$1 == "rate" { printf "%d\n", $2 }'
}

date -u '+%Y-%m-%d'
nsd -v 2>&1 | head -n 1
dnsperf -h 2>&1 | head -n 1
"$dir/shuultuur" version
printf '%6s %14s %14s %14s %8s\n' round dnsperf 'dnsperf -c 4' 'load dns' ratio
n=0
while [ "$n" -lt "$rounds" ]; do
	n=$((n + 1))
	a=$(theirs 1) b=$(theirs 4) c=$(ours)
	awk -v n="$n" -v a="$a" -v b="$b" -v c="$c" 'BEGIN { printf "%6d %14d %14d %14d %8.2f\n", n, a, b, c, c / (a > b ? a : b) }' | tee -a "$dir/table"
done
sort -k5n "$dir/table" | awk '{ r[NR] = $5 } END { printf "median ratio %.2f\n", r[int((NR + 1) / 2)] }'
