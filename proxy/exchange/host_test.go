package exchange

import "testing"

func TestAHostIsWrittenInOneForm(t *testing.T) {
	for in, want := range map[string]string{
		"Example.COM.": "example.com", "a_b.example": "a_b.example", "127.0.0.1": "127.0.0.1", "0x7F.1": "127.0.0.1", "2130706433": "127.0.0.1",
		"0177.0.0.1.": "127.0.0.1", "1.2.3.4.5": "1.2.3.4.5", "": "", ".": "", "a b": "", "a/b": "",
	} {
		if got, ok := CleanHost([]byte(in)); got != want || ok != (want != "") {
			t.Errorf("CleanHost(%q) = %q, %v, want %q", in, got, ok, want)
		}
	}
}
