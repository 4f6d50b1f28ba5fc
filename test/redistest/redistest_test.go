package redistest

import (
	"testing"

	"shuultuur/lib/redis"
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
		t.Error("the server answers after Stop")
	}
	s.Restart(t)
	if !s.answers() || s.Addr != addr {
		t.Errorf("after Restart at %s the server does not answer at its old address %s", s.Addr, addr)
	}
}

func TestAPausedServerHangs(t *testing.T) {
	s := Start(t)
	s.Do(t, "PING")
	s.Pause(t)
	if s.answers() {
		t.Error("a paused server answers")
	}
	s.Resume(t)
	if !s.answers() {
		t.Error("the server does not answer after Resume")
	}
}

func TestAClusterWorks(t *testing.T) {
	all := StartCluster(t, 3)
	c, err := redis.Connect(t.Context(), redis.Config{Addresses: []string{all[1].Addr}, Cluster: true}, redis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var b redis.Batch
	for _, k := range []string{"a", "b", "c", "d", "e", "f"} {
		b.Add("SET", k, k)
	}
	if err := c.Do(t.Context(), &b); err != nil {
		t.Error(err)
	}
	for _, s := range all {
		m := s.Do(t, "DBSIZE")
		if n, err := m.Int(); err != nil || n == 0 {
			t.Errorf("%s holds no key: the slots are not shared", s.Addr)
		}
	}
}

func TestASentinelNamesItsMaster(t *testing.T) {
	s := Start(t)
	w := StartSentinel(t, s, "fleet")
	c, err := redis.Connect(t.Context(), redis.Config{Addresses: []string{w.Addr}, Sentinel: "fleet"}, redis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var b redis.Batch
	b.Add("SET", "a", "b")
	if err := c.Do(t.Context(), &b); err != nil {
		t.Error(err)
	}
}
