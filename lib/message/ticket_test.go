package message

import (
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
)

// TestTicketsDoNotCountAgainstTheLimit: the other fields do, whatever their order, and nothing
// else is a ticket.
func TestTicketsDoNotCountAgainstTheLimit(t *testing.T) {
	const most = 8 << 10
	ticket := func(size int) string { return "Proxy-Authorization: Negotiate " + strings.Repeat("A", size) + "\r\n" }
	other := func(size int) string { return "X: " + strings.Repeat("x", size) + "\r\n" }
	for _, tt := range []struct {
		name, fields string
		want         bool
	}{
		{"a ticket of Windows", ticket(64_000), true},
		{"the largest of Windows", ticket(87_384), true},
		{"in small letters", strings.Replace(ticket(64_000), "Proxy-Authorization: Negotiate", "proxy-authorization:negotiate", 1), true},
		{"before other fields", ticket(64_000) + other(7000), true},
		{"behind other fields", other(7000) + ticket(64_000), true},
		{"with too many bytes of others before", other(8200) + ticket(64_000), false},
		{"with too many bytes of others behind", ticket(64_000) + other(8200), false},
		{"a larger one", ticket(150_000), false},
		{"two", ticket(90_000) + ticket(90_000), false},
		{"a password", "Proxy-Authorization: Basic " + strings.Repeat("A", 9000) + "\r\n", false},
		{"for a server", strings.Replace(ticket(9000), "Proxy-", "", 1), false},
		{"of another name", "X-" + ticket(9000), false},
		{"within a value", "X: Proxy-Authorization: Negotiate " + strings.Repeat("A", 9000) + "\r\n", false},
		{"none", other(9000), false},
	} {
		head := "GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n" + tt.fields + "\r\n"
		for _, tickets := range []bool{true, false} {
			r := NewReader(strings.NewReader(head), 4096, most)
			r.Tickets(tickets)
			var q Request
			err := r.ReadRequest(&q)
			if want := tt.want && tickets; (err == nil) != want {
				t.Errorf("%s, tickets %v: %v, want it read: %v", tt.name, tickets, err, want)
			}
		}
	}
	r := NewReader(iotest.OneByteReader(strings.NewReader(fmt.Sprint("GET / HTTP/1.1\r\nHost: x\r\n", ticket(64_000), "\r\n"))), 4096, most)
	r.Tickets(true)
	if err := r.ReadRequest(new(Request)); err != nil {
		t.Errorf("byte by byte: %v", err)
	}
}
