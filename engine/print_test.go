package engine

import "testing"

func TestPrintEscapesWhatTerminalsCannotShow(t *testing.T) {
	for text, want := range map[string]string{
		"lists/a:3: caf\xe9\n": `lists/a:3: caf\xe9` + "\n", "café ж\n": "café ж\n", "a\x1b[2Jb\r\n": `a\u001b[2Jb\u000d` + "\n", "\u202e": `\u202e`, "\ufffd": "\ufffd", "": "",
	} {
		if got := escaped(text); got != want {
			t.Errorf("escaped(%q) = %q, want %q", text, got, want)
		}
	}
}
