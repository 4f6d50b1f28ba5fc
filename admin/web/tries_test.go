package web

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func TestWrongTokensAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewSite(Shared{Token: "0123456789abcdef"})
		h.Serve([]Route{{Method: "GET", Path: "/metrics", Role: Monitor, Handler: func(http.ResponseWriter, *http.Request) {}}})
		ask := func(remote, token string) int {
			r := httptest.NewRequest("GET", "http://127.0.0.1/metrics", nil)
			r.RemoteAddr = remote
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		for i := range maxTries {
			if got := ask("[2001:db8::"+strconv.Itoa(i)+"]:5000", "wrong"); got != 401 {
				t.Fatalf("wrong token %d: status %d, want 401", i, got)
			}
		}
		for _, c := range []struct {
			remote, token string
			want          int
		}{
			{"[2001:db8::99]:5000", "wrong", 429},
			{"[2001:db8::99]:5000", "0123456789abcdef", 429},
			{"[2001:db8::99]:5000", "", 401},
			{"[2001:db8:0:1::1]:5000", "0123456789abcdef", 200}, // another network
			{"127.0.0.1:5000", "wrong", 200},                    // this machine
		} {
			if got := ask(c.remote, c.token); got != c.want {
				t.Errorf("from %s with %q: status %d, want %d", c.remote, c.token, got, c.want)
			}
		}
		time.Sleep(tryTime)
		if got := ask("[2001:db8::99]:5000", "0123456789abcdef"); got != 200 {
			t.Errorf("the right token after the bar ended: status %d, want 200", got)
		}
		for i := range 2 * maxBarred {
			ask(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).String()+":1", "wrong")
		}
		if n := h.wrong.Len(); n > maxBarred {
			t.Errorf("%d clients are remembered, more than maxBarred", n)
		}
	})
}
