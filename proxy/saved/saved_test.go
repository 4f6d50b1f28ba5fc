package saved

import (
	"fmt"
	"net/netip"
	"testing"

	"shuultuur/filter"
)

const mib = 1 << 20

func client(addr, user string) *filter.Client {
	return &filter.Client{Addr: netip.MustParseAddr(addr), User: user}
}

// greedy claims a MiB at a time until there is no more, and returns how many there were.
func greedy(s *Files, c func(i int) *filter.Client) (n int) {
	for s.Claim(c(n), mib) != nil {
		n++
	}
	return n
}

// TestNoClientTakesTheDiskFromOthers: whoever takes all that it gets, however it is called, a later
// client keeps its download.
func TestNoClientTakesTheDiskFromOthers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		greedy func(i int) *filter.Client
		want   int // MiB of 64 that it gets
	}{
		"an address":               {func(int) *filter.Client { return client("10.0.0.1", "") }, 48},
		"an address of many users": {func(i int) *filter.Client { return client("10.0.0.1", fmt.Sprint("user ", i)) }, 48},
		"a user at many addresses": {func(i int) *filter.Client { return client(fmt.Sprintf("10.0.1.%d", i+1), "ann") }, 48},
		"a machine's IPv6 addresses": {func(i int) *filter.Client {
			return client(fmt.Sprintf("2001:db8::%x", i+1), "")
		}, 48},
		"an IPv4 address written in two ways": {func(i int) *filter.Client {
			return client([]string{"10.0.0.1", "::ffff:10.0.0.1"}[i%2], "")
		}, 48},
		"as many as there are": {func(i int) *filter.Client { return client(fmt.Sprintf("10.0.1.%d", i+1), "") }, 63},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(t.TempDir(), 64*mib)
			if got := greedy(s, tt.greedy); got != tt.want {
				t.Errorf("it holds %d MiB of 64, want %d", got, tt.want)
			}
			if s.Claim(client("10.0.0.9", "bob"), mib/2) == nil {
				t.Error("another client gets no room")
			}
		})
	}
}

// TestWhatIsGivenBackIsThereAgain, in whatever order rooms and files end.
func TestWhatIsGivenBackIsThereAgain(t *testing.T) {
	t.Parallel()
	s := New(t.TempDir(), 64*mib)
	one := client("10.0.0.1", "ann")
	if s.Claim(one, 49*mib) != nil {
		t.Error("one client gets more than three quarters at once")
	}
	room := s.Claim(one, 48*mib)
	if room == nil {
		t.Fatal("a single client does not get three quarters")
	}
	room.Give()
	room = s.Claim(one, 40*mib)
	f, err := room.Create()
	if err != nil {
		t.Fatal(err)
	}
	f.Client = *one
	key := s.Keep(f)
	again := s.Find(key, one)
	if again == nil || s.Find(key, client("10.0.0.2", "ann")) != nil {
		t.Fatal("the file is not there for its client, or for another one, too")
	}
	again.Drop()
	if bytes, open := s.Used(); bytes != 40*mib || open != 1 {
		t.Errorf("%d bytes of %d files are counted, want 40 MiB of 1", bytes, open)
	}
	f.Drop()
	if bytes, open := s.Used(); bytes != 0 || open != 0 || len(s.each) != 0 {
		t.Errorf("%d bytes of %d files and %v are counted at the end", bytes, open, s.each)
	}
}

// TestAFileThatGrowsStaysInTheShare: its length is not known before.
func TestAFileThatGrowsStaysInTheShare(t *testing.T) {
	t.Parallel()
	s := New(t.TempDir(), 64*mib)
	grow := func(c *filter.Client) (n int64) {
		f, err := s.Claim(c, 0).Create()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Drop)
		for {
			if _, err := f.Write(make([]byte, mib)); err != nil {
				if err != ErrFull {
					t.Error(err)
				}
				return f.Size() / mib
			}
		}
	}
	if a, b := grow(client("10.0.0.1", "")), grow(client("10.0.0.2", "")); a != 48 || b != 12 {
		t.Errorf("the first client wrote %d MiB of 64 and the next %d, want 48 and 12", a, b)
	}
}

// TestNoClientOpensAllFiles: each is a descriptor.
func TestNoClientOpensAllFiles(t *testing.T) {
	t.Parallel()
	s := New(t.TempDir(), 1<<40)
	open := func(c *filter.Client) (n int) {
		for {
			r := s.Claim(c, 1)
			f, err := r.Create()
			if err != nil {
				r.Give()
				return n
			}
			t.Cleanup(f.Drop)
			n++
		}
	}
	if a, b := open(client("10.0.0.1", "ann")), open(client("10.0.0.2", "bob")); a != 192 || b != 48 {
		t.Errorf("the first client has %d files and the next %d, want 192 and 48", a, b)
	}
}
