package redistest

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

func TestAServerStopsAndComesBackAtItsAddress(t *testing.T) {
	s := Start(t, "--maxmemory", "50mb")
	if m := s.Do(t, "CONFIG", "GET", "maxmemory"); m.String() == "" {
		t.Error("no answer to CONFIG GET")
	}
	s.Do(t, "SET", "a", "b")
	addr := s.Addr
	s.Stop()
	if s.answers() {
		t.Error("it answers after Stop")
	}
	s.Restart(t)
	if !s.answers() || s.Addr != addr {
		t.Errorf("after Restart at %s it does not answer at %s", s.Addr, addr)
	}
}

func TestAPausedServerHangs(t *testing.T) {
	s := Start(t)
	s.Do(t, "PING")
	s.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	c := s.Client(t)
	if err := c.Do(ctx, c.B().Ping().Build()).Error(); err == nil {
		t.Error("a paused server answers")
	}
	s.Resume(t)
	if !s.answers() {
		t.Error("after Resume it does not answer")
	}
}

func TestAClusterWorks(t *testing.T) {
	all := StartCluster(t, 3)
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{all[1].Addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, k := range []string{"a", "b", "c", "d", "e", "f"} {
		if err := c.Do(t.Context(), c.B().Set().Key(k).Value(k).Build()).Error(); err != nil {
			t.Errorf("SET %s: %v", k, err)
		}
	}
	for _, s := range all {
		m := s.Do(t, "DBSIZE")
		if n, err := m.AsInt64(); err != nil || n == 0 {
			t.Errorf("%s holds no key: the slots are not shared", s.Addr)
		}
	}
}

func TestASentinelNamesItsMaster(t *testing.T) {
	s := Start(t)
	w := StartSentinel(t, s, "fleet")
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{w.Addr}, Sentinel: rueidis.SentinelOption{MasterSet: "fleet"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Do(t.Context(), c.B().Set().Key("a").Value("b").Build()).Error(); err != nil {
		t.Error(err)
	}
}
