package test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"shuultuur/test/peer"
)

// TestTheStarterSettingsStartWithoutAnyNameServer: on a machine that has no network yet, or is
// its own name server, the gateway filters pages, refuses names at once and reports which line
// is missing. It resolves names as soon as the system has a server.
func TestTheStarterSettingsStartWithoutAnyNameServer(t *testing.T) {
	peer.Program(t, "unshare")
	if os.Getuid() != 0 {
		t.Skip("only root can give a program its own /etc/resolv.conf")
	}
	peer.Program(t, "dig")
	for name, conf := range map[string]string{
		"empty":    "",
		"comments": "# the network is not up\nsearch lan\n",
		"ourself":  "nameserver 127.0.0.1\nnameserver ::1\n",
		"gone":     "gone",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd := exec.Command("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", firstStart)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH")+":/usr/sbin:/sbin", "SCRATCH="+dir, "CONF="+conf)
			out, err := cmd.CombinedOutput()
			if err != nil && strings.Contains(string(out), "unshare: ") {
				t.Skipf("no namespaces here: %s", out)
			}
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

const firstStart = `set -euo pipefail
trap 'echo "FAILED: $BASH_COMMAND"; cat log; curl -s http://127.0.0.1:8081/health' ERR
mkdir -p new work here other && mount -t overlay overlay -o lowerdir=/etc,upperdir=new,workdir=work /etc
ip link set lo up
rm -f /etc/resolv.conf
[ "$CONF" = gone ] || printf '%s' "$CONF" >/etc/resolv.conf
cd here
if [ "${CONF#nameserver}" != "$CONF" ]; then
	shuultuur init . >/dev/null
	sed -i 's/127.0.0.1:8053/:53/' shuultuur.yaml
	port=53
fi
dig="dig @127.0.0.1 -p ${port:-8053} +tries=1 +time=5"
until_ok() { for i in $(seq 200); do ! "$@" || return 0; sleep 0.1; done; echo "never: $*"; return 1; }
health() { curl -s http://127.0.0.1:8081/health | grep -q "$1"; }
check=$(shuultuur check ${port:+shuultuur.yaml} 2>&1) || [ -z "${port:-}" ]
[ -z "${port:-}" ] || grep -q 'dns.forward.upstreams: none is set.*such as 9.9.9.9' <<<"$check"
shuultuur run >log 2>&1 &
until_ok curl -sf -o ../page http://127.0.0.1:8081/ready
[ "$(curl -s -o ../page -w '%{http_code}' -x http://127.0.0.1:8080 http://ads.doubleclick.net/)" = 403 ]
$dig ads.doubleclick.net | grep -q 'EDE: 15'
$dig www.example.com >../answer; grep -q SERVFAIL ../answer; grep -q 'EDE: 22' ../answer
grep -q 'dns.forward.upstreams: none is set' log
health 'dns.forward.upstreams: none is set'
# The network comes up.
cd ../other
cat >shuultuur.yaml <<END
listen: {proxy: "off", admin: "off"}
data: ./data
dns: {listen: ["127.0.0.9:53"], hosts: {www.example.com: 192.0.2.7}, forward: {upstreams: [192.0.2.53]}}
policies: [{name: everyone}]
END
[ -z "${port:-}" ] || sed -i 's/127.0.0.9:53/127.0.0.9:5353/' shuultuur.yaml
shuultuur run >../other.log 2>&1 &
cd ../here
if [ -n "${port:-}" ]; then # port 53 of every address is ours: the line that is asked for
	sed -i 's/^  # forward:.*/  forward: {upstreams: ["127.0.0.9:5353"]}/' shuultuur.yaml
else
	echo nameserver 127.0.0.9 >/etc/resolv.conf
fi
answered() { $dig www.example.com | grep -q 192.0.2.7; }
until_ok answered
! health dns.forward.upstreams
`
