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
// every port increased by 10000, or decreased if it would be too high. It
// returns a line with the new place of each address.
func WithOtherPorts(file, moved string) (lines []string, err error) {
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
				n, err2 := strconv.Atoi(port)
				if !ok || err != nil || err2 != nil {
					continue // off
				}
				if n += besideBy; n > 65535 {
					n -= 2 * besideBy
				}
				several[i] = net.JoinHostPort(host, strconv.Itoa(n))
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
	return lines, atomicfile.WriteBytes(moved, 0o600, b.Bytes())
}
