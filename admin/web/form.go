package web

import "strings"

// Words reads scopes, separated by commas.
func Words(given []string) (all []string) {
	for _, g := range given {
		for s := range strings.SplitSeq(g, ",") {
			if s = strings.TrimSpace(s); s != "" {
				all = append(all, s)
			}
		}
	}
	return all
}

// A Choice is a time that the page can look back.
type Choice struct{ Value, Text string }

// MaxForm bounds the bytes of a form that does not say otherwise.
const MaxForm = 16 << 10
