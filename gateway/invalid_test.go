package gateway

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// invalid are settings with one mistake each. Each line replaces or adds to
// settings that are good but for it.
const invalid = `
listen: {proxy: 127.0.0.1}
listen: {proxy: "127.0.0.1:99999"}
listen: {proxy: "127.0.0.1:http!"}
listen: {proxy: "127.0.0.1:-1"}
listen: {proxy: {a: b}}
listen: {proxy: "gateway.example:8080"}
listen: {proxy: "127.0.0.1:7", admin: "127.0.0.1:7"}
listen: {proxy: ":7", transparent: "127.0.0.1:7"}
listen: {proxy: "127.0.0.1:0", admin: "127.0.0.1"}
listen: {proxy: "127.0.0.1:0", token: short}
listen: {proxy: "127.0.0.1:0", tls: {cert: none.pem, key: none.pem}}
listen: {prxoy: "127.0.0.1:0"}
datta: data
data: [a]
lists: {own: {format: xml, path: own.txt}}
lists: {own: {path: nothing.txt}}
lists: {own: {}}
lists: {own: {path: own.txt, match: regexp}}
lists: {own: {path: own.txt, charset: klingon}}
lists: {own: {path: own.txt, url: "http://lists.example/"}}
lists: {own: {url: "ftp://lists.example/"}}
lists: {own: {source: no-such-source}}
lists: {own: {url: "http://lists.example/", every: 1s}}
lists: {own: {url: "http://lists.example/", every: soon}}
lists: {own: {url: "http://lists.example/", shrink: 200%}}
lists: {own: {url: "http://lists.example/", sha256: abc}}
lists: {own: {url: "http://lists.example/", minimum: -1}}
lists: {"a/b": {path: own.txt}}
lists: {own: {path: own.txt, colour: red}}
lists: [own]
checks: {category: {lists: [nowhere]}}
checks: {category: {lists: own.txt}}
checks: {category: {lists: [], unknown-page: somewhere}}
checks: {phrase: {banned: [nothing.list]}}
checks: {phrase: {compat: e2guardian-9}}
checks: {phrase: {weightedphrasemode: 7}}
checks: {phrase: {naughtynesslimit: -1}}
checks: {phrase: {phrasefiltermode: 9, compat: dansguardian}}
checks: {phrase: {preservecase: 1}}
checks: {phrases: {}}
policies: [{rules: []}]
policies: [{name: a, rules: []}, {name: a, rules: []}]
policies: [{name: a, networks: [300.0.0.0/8]}]
policies: [{name: a, networks: [10.0.0.1/8x]}]
policies: [{name: a, groups: [nobody]}]
policies: [{name: a, schedule: {days: mon-frx}}]
policies: [{name: a, schedule: {hours: "25:00-26:00"}}]
policies: [{name: a, schedule: {zone: Mars/Olympus}}]
policies: [{name: a, rules: [{action: block, host: [x.example]}]}]
policies: [{name: a, rules: [{name: r, action: stop, host: [x.example]}]}]
policies: [{name: a, rules: [{name: r, host: [x.example]}]}]
policies: [{name: a, rules: [{name: r, action: block, category: [unheard-of]}]}]
policies: [{name: a, rules: [{name: r, action: block, url: ["("]}]}]
policies: [{name: a, rules: [{name: r, action: block, agent: ["["]}]}]
policies: [{name: a, rules: [{name: r, action: block, host: ["a b"]}]}]
policies: [{name: a, rules: [{name: r, action: block, header: {X: "("}}]}]
policies: [{name: a, rules: [{name: r, action: block, type: ["html"]}]}]
policies: [{name: a, rules: [{name: r, action: block, extension: ["@nothing"]}]}]
policies: [{name: a, rules: [{name: r, action: block, query: [NOTYPE]}]}]
policies: [{name: a, rules: [{name: r, action: block, ja4: [x]}]}]
policies: [{name: a, rules: [{name: r, action: redirect, host: [x.example]}]}]
policies: [{name: a, rules: [{name: r, action: block, over: -1, host: [x.example]}]}]
policies: [{name: a, rules: [{name: r, action: warn, warn-for: -1s, host: [x.example]}]}]
policies: [{name: a, rules: [{name: r, action: block, answer: hole, host: [x.example]}]}]
policies: [{name: a, rules: [{name: r, action: block, schedule: {days: never}}]}]
policies: [{name: a, decrypt: true}]
policies: [{name: a, decrypt: maybe}]
policies: [{name: a, patience: forever}]
policies: [{name: a, limits: [{requests: 100}]}]
policies: [{name: a, limits: [{requests: 100/1m, by: town}]}]
policies: [{name: a, limits: [{by: client}]}]
policies: [{name: a, limits: [{requests: 0/1m}]}]
policies: [{name: a, quotas: [{}]}]
policies: [{name: a, quotas: [{time: 25h}]}]
policies: [{name: a, quotas: [{bytes: 5xB}]}]
policies: [{name: a, learn: 1x}]
policies: [{name: a, warn-on-loss: perhaps}]
policies: [{name: a, youtube: harsh}]
policies: [{name: a, safesearch: google}]
policies: [{name: a, dns: {answer: whatever}}]
policies: [{name: a, dns: {error: unknown}}]
policies: [{name: a, dns: {drop: [h9]}}]
policies: [{name: a, rule: []}]
policies: {name: a}
identity: {addresses: {anna: [x]}}
identity: {addresses: {anna: [10.0.0.1], ben: [10.0.0.1]}}
identity: {groups: {teachers: [nobody]}}
identity: {basic: {file: nothing}}
identity: {basic: {}}
identity: {basic: {file: passwords, networks: [x]}}
proxy: {via: "a b"}
proxy: {trusted: [10.0.0.0/99]}
proxy: {connect-ports: [70000]}
proxy: {connect-ports: [-1]}
proxy: {connections: -1}
proxy: {connections: many}
proxy: {idle: 1x}
proxy: {idle: -1s}
proxy: {head: 5 apples}
proxy: {parent: "ftp://proxy.example"}
proxy: {private: [x]}
proxy: {held: 1ZB}
proxy: {idel: 5s}
pages: {templates: nothing}
intercept: {root: nothing.pem}
intercept: {}
intercept: {root: passwords}
events: {keep: 90 days}
events: {keep: -1d}
events: {queue: -1}
events: {sqlit: events.db}
state: {size: 1x}
state: {size: 1KiB}
state: {redis: {addresses: []}}
state: {redis: {addresses: ["127.0.0.1:1"], wait: 1h}}
state: {redis: {addresses: ["127.0.0.1:1"], db: -1}}
state: {redis: {addresses: ["127.0.0.1:1"], tls: {ca: nothing.pem}}}
dns: {listen: ["127.0.0.1:0:0"]}
dns: {listen: ["127.0.0.1:99999"]}
dns: {listen: ["127.0.0.1:0"], tls: ["127.0.0.1:0"]}
dns: {listen: ["127.0.0.1:0"], tls: ["127.0.0.1:0"], cert: nothing.pem, key: nothing.pem}
dns: {listen: ["127.0.0.1:0"], udp-size: 100}
dns: {listen: ["127.0.0.1:0"], rate: -5}
dns: {listen: ["127.0.0.1:0"], cookies: {mode: sometimes}}
dns: {listen: ["127.0.0.1:0"], cookies: {secret: abc}}
dns: {listen: ["127.0.0.1:0"], block: {answer: nonsense}}
dns: {listen: ["127.0.0.1:0"], block: {warn: sinkhole}}
dns: {listen: ["127.0.0.1:0"], block: {sinkhole: [x]}}
dns: {listen: ["127.0.0.1:0"], hosts: {"a..b": 10.0.0.1}}
dns: {listen: ["127.0.0.1:0"], hosts-files: [nothing]}
dns: {listen: ["127.0.0.1:0"], private: ["a..b"]}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: [x]}}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: ["127.0.0.1:1"], order: random}}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: ["127.0.0.1:1"], race: 99}}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: ["127.0.0.1:1"], ca: nothing.pem}}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: ["127.0.0.1:1"], routes: {"a..b": "127.0.0.1:1"}}}
dns: {listen: ["127.0.0.1:0"], cache: {size: tiny}}
dns: {listen: ["127.0.0.1:0"], cache: {siez: 1MiB}}
dns: {listen: ["127.0.0.1:0"], zones: {serial: random}}
dns: {listen: ["127.0.0.1:0"], zones: {tsig: [{name: a..b, secret: MDEy}]}}
dns: {listen: ["127.0.0.1:0"], zones: {allow: [{key: nobody}]}}
`

// TestCheckAndRunRefuseTheSameSettings in the same words.
func TestCheckAndRunRefuseTheSameSettings(t *testing.T) {
	file := folder(t, map[string]string{"own.txt": "own.example\n", "passwords": ""})
	n := 0
	for line := range strings.Lines(invalid) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		n++
		settings := line + "\n"
		if !strings.HasPrefix(line, "listen:") {
			settings = "listen: {proxy: \"127.0.0.1:0\", admin: \"127.0.0.1:0\"}\n" + settings
		}
		if !strings.HasPrefix(line, "policies:") {
			settings += "policies: [{name: everyone, rules: []}]\n"
		}
		if err := os.WriteFile(file, []byte(settings), 0o644); err != nil {
			t.Fatal(err)
		}
		check := explain(t, file)
		g, run := New(t.Context(), file, slog.New(slog.DiscardHandler))
		if run == nil {
			if err := g.close(); err != nil {
				t.Error(err)
			}
		}
		switch {
		case check == nil && run == nil:
			t.Errorf("accepted: %s", line)
		case check == nil || run == nil || check.Error() != run.Error():
			t.Errorf("%s\ncheck: %v\nrun:   %v", line, check, run)
		case !strings.Contains(check.Error(), filepath.Base(file)+":"):
			t.Errorf("%s: %v: names no line", line, check)
		}
	}
	if n < 100 {
		t.Errorf("%d settings", n)
	}
}
