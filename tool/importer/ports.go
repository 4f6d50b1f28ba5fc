package importer

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"shuultuur/lib/atomicfile"
	"shuultuur/tool/importer/input"
)

// besideBy is how far our ports are from those of the other program, which continues to run.
const besideBy = 10000

// listeners are the settings that say where servers listen.
var listeners = map[string][]string{
	"listen": {"proxy", "transparent", "tproxy", "icap", "admin"},
	"dns":    {"listen", "tls", "https", "quic"},
}

// WithOtherPorts writes the settings in file to another file of the same folder, with
// every port increased by 10000, or decreased if it would be too high; if that port is
// taken, the next free one is used. It returns a line with the new place of each address,
// and lines that say how to compare.
func WithOtherPorts(file, moved string) (lines []string, err error) {
	return withOtherPorts(file, moved, isFree)
}

// isFree reports whether a server could listen at an address, for TCP and UDP.
func isFree(address string) bool {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	_ = l.Close()
	c, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// besideTries is how many ports are tried in place of one that is taken.
const besideTries = 100

// compareBy says how to ask a server of ours, and of the other program.
var compareBy = map[string]string{
	"listen.proxy": "curl -x http://%[1]s:%[2]d URL, and with port %[3]d",
	"dns.listen":   "dig @%[1]s -p %[2]d NAME, and with port %[3]d",
}

// localHost returns the host by which this machine reaches an address of its own.
func localHost(host string) string {
	if host == "" || host == "0.0.0.0" || host == "::" {
		return "127.0.0.1"
	}
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

func withOtherPorts(file, moved string, free func(address string) bool) (lines []string, err error) {
	text, err := input.Whole(file)
	if err != nil {
		return nil, err
	}
	var all map[string]any
	if err := yaml.Load(text, &all); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	listen, _ := all["listen"].(map[string]any)
	if listen == nil {
		listen = map[string]any{}
		all["listen"] = listen
	}
	if listen["admin"] == nil {
		listen["admin"] = "127.0.0.1:8081"
	}
	var compare []string
	for _, group := range slices.Sorted(maps.Keys(listeners)) {
		in, _ := all[group].(map[string]any)
		for _, key := range listeners[group] {
			one, single := in[key].(string)
			several, _ := in[key].([]any)
			if single {
				several = []any{one}
			}
			for i, a := range several {
				was, ok := a.(string)
				host, port, err := net.SplitHostPort(was)
				old, err2 := strconv.Atoi(port)
				if !ok || err != nil || err2 != nil {
					continue // off
				}
				n := old + besideBy
				if n > 65535 {
					n -= 2 * besideBy
				}
				for try := n; try < min(n+besideTries, 65536); try++ {
					if free(net.JoinHostPort(host, strconv.Itoa(try))) {
						n = try
						break
					}
				}
				several[i] = net.JoinHostPort(host, strconv.Itoa(n))
				if by := compareBy[group+"."+key]; by != "" && len(compare) == 0 {
					compare = []string{"Ask both the same: " + fmt.Sprintf(by, localHost(host), n, old), "Or judge a log of the other program: shuultuur replay -offline -config " + file + " LOG"}
				}
				lines = append(lines, fmt.Sprintf("%s.%s: %s instead of %s", group, key, several[i], was))
			}
			if len(several) > 0 {
				in[key] = several
			}
		}
	}
	slices.Sort(lines)
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s with other ports, to run it beside the program whose settings were imported.\n\n", strings.TrimSpace(file))
	data, err := yaml.Dump(all)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", moved, err)
	}
	b.Write(data)
	return append(lines, compare...), atomicfile.WriteBytes(moved, 0o600, b.Bytes())
}
