//go:build unix

package forward

import (
	"os"
	"slices"
	"strings"
)

const resolvConf = "/etc/resolv.conf"

// systemFiles are those that configured reads.
var systemFiles = []string{resolvConf}

// configured returns the name servers of the system; resolv.conf(5).
func configured() []string {
	text, err := os.ReadFile(resolvConf)
	if err != nil {
		return nil
	}
	return serversIn(string(text))
}

func serversIn(text string) (servers []string) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == "nameserver" && !slices.Contains(servers, f[1]) {
			servers = append(servers, f[1])
		}
	}
	return servers
}
