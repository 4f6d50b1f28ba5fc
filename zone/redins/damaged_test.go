package redins

import (
	"testing"

	"shuultuur/test/redistest"
)

func TestADamagedValueKeepsTheLastGoodOne(t *testing.T) {
	t.Parallel()
	for _, schema := range []Schema{Redins, Z42} {
		t.Run(string(schema), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			put := func(label, typ, text string) {
				if schema == Redins {
					s.Do(t, "HSET", "redins:zones:a.example.", label, text)
					return
				}
				s.Do(t, "SET", "z42:zones:a.example.:labels:"+label+":"+typ, text)
				s.Do(t, "SADD", "z42:zones:a.example.:labels", "@", label)
			}
			one := func(ip string) string {
				if schema == Redins {
					return oneA(ip)
				}
				return `{"ttl":300,"records":[{"ip":"` + ip + `"}]}`
			}
			put("www", "A", one("192.0.2.1"))
			put("never", "A", `{"a":`)
			put("ttl", "A", map[Schema]string{Redins: `{"a":{"ttl":"300","records":[{"ip":"192.0.2.1"}]},"txt":{"records":[{"text":"x"}]}}`, Z42: `{"ttl":"300","records":[{"ip":"192.0.2.1"}]}`}[schema])
			put("empty", "A", map[Schema]string{Redins: `{}`, Z42: `{"records":[]}`}[schema])
			put("sets", "A", map[Schema]string{Redins: `{"a":{"ttl":300,"records":[]},"txt":{}}`, Z42: `{}`}[schema])
			s.Do(t, "SADD", string(schema)+":zones", "a.example.")
			if schema == Z42 {
				s.Do(t, "SADD", "z42:zones:a.example.:labels", "bare")
			} else {
				put("bare", "", "{}")
			}
			cfg := at127(s)
			cfg.Schema = schema
			n := startNode(t, cfg, nil, nil)
			const good = "NOERROR www.a.example. 300 IN A 192.0.2.1"
			n.answers(t, "www.a.example.", "A", good)
			for name, want := range map[string]string{"never": "SERVFAIL", "ttl": "SERVFAIL", "empty": "NOERROR", "sets": "NOERROR", "bare": "NOERROR", "none": "NXDOMAIN"} {
				n.answers(t, name+".a.example.", "A", want)
			}
			if schema == Redins {
				n.answers(t, "ttl.a.example.", "TXT", `NOERROR ttl.a.example. 3600 IN TXT "x"`)
			}
			for _, damage := range []string{`!@#$$^`, `{"a":{"records":[{"ip":"999.1.1.1"}]},"records":[{"ip":"999.1.1.1"}]}`, `{"a":7,"records":7}`, `[]`} {
				put("www", "A", damage)
				put("mark", "A", one("192.0.2.9"))
				n.answers(t, "mark.a.example.", "A", "NOERROR mark.a.example. 300 IN A 192.0.2.9")
				n.answers(t, "www.a.example.", "A", good)
				put("mark", "A", one("192.0.2.8"))
				n.answers(t, "mark.a.example.", "A", "NOERROR mark.a.example. 300 IN A 192.0.2.8")
			}
			if len(n.Problems()) == 0 {
				t.Error("Problems is empty, want the damaged values")
			}
			// A zone that is read as a whole keeps the last good value, too, and a good value
			// replaces it.
			s.Do(t, "SET", string(schema)+":zones:a.example.:config", `{"domain_id":"other"}`)
			put("mark", "A", one("192.0.2.7"))
			n.answers(t, "mark.a.example.", "A", "NOERROR mark.a.example. 300 IN A 192.0.2.7")
			n.answers(t, "www.a.example.", "A", good)
			put("www", "A", one("192.0.2.2"))
			n.answers(t, "www.a.example.", "A", "NOERROR www.a.example. 300 IN A 192.0.2.2")
			put("never", "A", one("192.0.2.3"))
			n.answers(t, "never.a.example.", "A", "NOERROR never.a.example. 300 IN A 192.0.2.3")
		})
	}
}

func TestAZoneThatCannotBeReadIsServfail(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "SET", "redins:zones:wrong.example.", "no hash")
	s.Do(t, "SADD", "redins:zones", "wrong.example.")
	putRedins(t, s, "good.example.", "", map[string]string{"www": oneA("192.0.2.1")})
	n := startNode(t, at127(s), nil, nil)
	n.answers(t, "www.good.example.", "A", "NOERROR www.good.example. 300 IN A 192.0.2.1")
	n.answers(t, "www.wrong.example.", "A", "SERVFAIL")
	s.Do(t, "DEL", "redins:zones:wrong.example.")
	s.Do(t, "HSET", "redins:zones:wrong.example.", "www", oneA("192.0.2.2"))
	n.answers(t, "www.wrong.example.", "A", "NOERROR www.wrong.example. 300 IN A 192.0.2.2")
}
