package engine

import (
	"shuultuur/lib/suricata/rule"
)

// HasStream reports whether a rule inspects content outside any buffer.
func (e *Engine) HasStream(dir rule.Direction) bool { return e.index[dir>>1].OnStream }

// NeedsFiles reports whether a rule tests the digest or the size of files.
func (e *Engine) NeedsFiles() bool {
	for _, k := range e.rules {
		for _, x := range k.pre {
			switch x := x.(type) {
			case *digestMatcher:
				return true
			case *rule.Integer:
				if x.Keyword == "filesize" {
					return true
				}
			}
		}
	}
	return false
}

// Has reports whether a rule inspects messages of one of the protocols in a direction, at step
// at or a later one.
func (e *Engine) Has(app rule.Proto, dir rule.Direction, at rule.Progress) bool {
	return e.wants[dir>>1][at]&app != 0
}

// note updates the result of Has for a rule.
func (e *Engine) note(c *compiledRule) {
	app := c.app
	last := rule.Line
	for _, g := range c.Groups {
		last = max(last, g.Buffer.Info().Progress)
		if app == 0 {
			switch g.Buffer.Info().Protocol {
			case "http":
				app |= rule.HTTP1 | rule.HTTP2
			case "http2":
				app |= rule.HTTP2
			case "tls":
				app |= rule.TLS
			case "dns":
				app |= rule.DNS
			}
		}
		if g.Buffer == rule.Payload {
			last = max(last, rule.Body)
		}
	}
	for _, x := range c.Conditions {
		switch x := x.(type) {
		case *rule.Word, *rule.Lua:
			last = max(last, rule.Body)
		case *rule.Event:
			if x.Name == "http.gzip_decompression_failed" || x.Name == "http.compression_bomb" {
				last = max(last, rule.Body)
			}
		case *rule.Integer:
			if x.Keyword == "filesize" {
				last = max(last, rule.Body)
			}
		}
	}
	if app == 0 {
		app = rule.HTTP1 | rule.HTTP2
	}
	for d := range 2 {
		if c.Dirs>>d&1 == 0 {
			continue
		}
		for p := rule.Line; p <= last; p++ {
			e.wants[d][p] |= app
		}
	}
}
