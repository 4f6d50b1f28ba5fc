package identity

import (
	"context"
	"encoding/base64"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/identity/directory"
)

// flaky is a directory that can fail.
type flaky struct {
	down  bool
	asked int
}

func (f *flaky) Verify(_ context.Context, name, password string) (string, []string, error) {
	f.asked++
	switch {
	case f.down:
		return "", nil, errors.New("connect: refused")
	case password != "secret":
		return "", nil, directory.ErrRefused
	}
	return name, []string{"pupils", "choir"}, nil
}

func TestUsersWhoAreKnownDoNotNoticeThatTheDirectoryIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id, err := New(Config{Basic: &Basic{RADIUS: &directory.RADIUS{Servers: []string{"127.0.0.1"}, Secret: "x"}}}, Parts{})
		if err != nil {
			t.Fatal(err)
		}
		f := &flaky{}
		id.basic.source = f
		login := func(user, password string) (string, []string, error) {
			c, err := id.Identify(t.Context(), netip.MustParseAddr("192.0.2.1"), []byte("Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+password))))
			return c.User + " by " + c.Source, c.Groups, err
		}
		if user, groups, err := login("bold", "secret"); err != nil || user != "bold by radius" || !slices.Equal(groups, []string{"choir", "pupils"}) {
			t.Fatalf("got %q, %q, %v", user, groups, err)
		}
		f.down = true
		time.Sleep(time.Hour)
		if user, _, err := login("bold", "secret"); err != nil || user != "bold by radius" {
			t.Errorf("while the directory is away: %q, %v", user, err)
		}
		_, _, err = login("saran", "secret")
		if w := (*Wait)(nil); !errors.As(err, &w) || w.Status != 503 || w.For == 0 || !strings.Contains(err.Error(), `the password of "saran": connect: refused`) {
			t.Errorf("somebody new, while the directory was away: %v", err)
		}
		f.down = false
		time.Sleep(time.Hour)
		n := f.asked
		if _, _, err := login("bold", "secret"); err != nil || f.asked != n+1 {
			t.Errorf("asked %d times after it was back, %v", f.asked-n, err)
		}
		if _, _, err := login("bold", "guess"); err == nil {
			t.Error("a wrong password counts")
		}
	})
}
