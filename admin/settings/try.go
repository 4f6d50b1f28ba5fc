package settings

import (
	"net/http"
	"strings"

	"shuultuur/text"
)

// A probe is what can be tried of a part of the settings, with the values in the form and before they
// are saved. Whoever may not write a key tries it as it is in the file.
type probe struct {
	Part  string
	Asks  string // what has to be written for it, "" for nothing
	Value string // what was written
}

// probes are the parts that can be tried, and what is asked for that.
var probes = map[string]string{
	"mail": text.Mark("Send it to"), "dns.forward": text.Mark("Name of a site"), "checks.virus": "", "alerts": "", "events": "",
	"state.redis": "", "votes.redis": "", "dns.redis": "",
	"identity.basic.ldap": text.Mark("Name of a person"), "identity.kerberos.ldap": "Name of a person",
}

func probeOf(key string) *probe {
	asks, ok := probes[key]
	if !ok {
		return nil
	}
	return &probe{Part: key, Asks: asks}
}

// probed is what a test has said.
type probed struct {
	Good bool
	Text string
	Each []string
}

// probe tries a part of the form.
func (f *form) probe(r *http.Request, part string, edited []byte) {
	for _, g := range f.data.Groups {
		if g.Key != part || g.Test == nil || f.s.Try == nil {
			continue
		}
		g.Test.Value = strings.TrimSpace(r.PostForm.Get("with." + part))
		real, err := f.real(edited)
		var answers []string
		if err == nil {
			answers, err = f.s.Try(r.Context(), real, part, g.Test.Value)
		}
		if err == nil {
			g.Said = &probed{Good: true, Each: answers, Text: strings.Join(answers, " ")}
			return
		}
		f.fail(f.redact(err))
		g.Said = &probed{Each: append(strings.Split(f.redact(err).Error(), "\n"), answers...), Text: err.Error()}
		f.data.Error = ""
	}
}
