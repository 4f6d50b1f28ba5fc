package redins

import (
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"shuultuur/lib/setting"
)

const redinsSettings = `{
 "server":[{"ip":"127.0.0.1","port":1053,"protocol":"udp"},{"ip":"127.0.0.1","port":1053,"protocol":"tcp"},
           {"ip":"::","port":853,"protocol":"tcp","tls":{"enable":true,"cert_path":"c.pem","key_path":"k.pem","ca_path":""}}],
 "handler":{"max_ttl":300,"cache_timeout":60,"zone_reload":600,"log_source_location":false,"upstream_fallback":false,
   "redis":{"ip":"192.0.2.6","port":6380,"db":2,"password":"x","prefix":"p_","suffix":"_s","connect_timeout":0,"read_timeout":0,"active_connections":10},
   "log":{"enable":true,"target":"file"},
   "upstream":[{"ip":"192.0.2.53","port":53,"protocol":"udp","timeout":400},{"ip":"2001:db8::53","port":5353,"protocol":"tcp"}],
   "geoip":{"enable":true,"country_db":"city.mmdb","asn_db":"isp.mmdb"},
   "healthcheck":{"enable":true,"max_requests":10,"max_pending_requests":100,"update_interval":600,"check_interval":60,"redis":{},"log":{"enable":false}}},
 "error_log":{"enable":true},
 "ratelimit":{"enable":true,"rate":90,"burst":10,"blacklist":["192.0.2.9"],"whitelist":["127.0.0.1"]},
 "surprise":1}`

func TestRedinsSettingsAreImported(t *testing.T) {
	text, remarks, err := Import([]byte(redinsSettings))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		DNS struct {
			Listen, TLS, Deny, Recursion []string
			Cert, Key                    string
			Rate                         int
			Forward                      struct{ Upstreams []string }
			Redis                        Config
		}
	}
	if err := yaml.Load(text, &got, yaml.WithKnownFields()); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	d := got.DNS
	r := d.Redis
	for what, ok := range map[string]bool{
		"listen":    len(d.Listen) == 1 && d.Listen[0] == "127.0.0.1:1053",
		"tls":       len(d.TLS) == 1 && d.TLS[0] == "[::]:853" && d.Cert == "c.pem" && d.Key == "k.pem",
		"deny":      len(d.Deny) == 1 && d.Deny[0] == "192.0.2.9/32",
		"rate":      d.Rate == 2,
		"recursion": len(d.Recursion) == 1,
		"upstreams": strings.Join(d.Forward.Upstreams, " ") == "192.0.2.53 tcp://[2001:db8::53]:5353",
		"redis":     r.Redis.Addresses[0] == "192.0.2.6:6380" && r.Redis.DB == 2 && r.Redis.Password == "x" && r.Redis.Prefix == "p_" && r.Suffix == "_s",
		"schema":    r.Schema == Redins,
		"reload":    r.Reload == setting.Duration(10*time.Minute) && r.MaxTTL == 300,
		"geography": r.Geography.Country == "city.mmdb" && r.Geography.ASN == "isp.mmdb",
		"health":    r.Health.Interval == setting.Duration(time.Minute) && r.Health.Concurrent == 10,
	} {
		if !ok {
			t.Errorf("%s was imported wrongly:\n%s", what, text)
		}
	}
	all := strings.Join(remarks, "\n")
	for _, want := range []string{"surprise: not carried over", "handler.log:", "error_log:", "ratelimit.burst", "ratelimit.whitelist"} {
		if !strings.Contains(all, want) {
			t.Errorf("no remark about %q:\n%s", want, all)
		}
	}
	if len(remarks) != 5 {
		t.Errorf("%d remarks, want 5:\n%s", len(remarks), all)
	}
}

func TestZ42SettingsAreImported(t *testing.T) {
	text, remarks, err := Import([]byte(`{"server":[{"ip":"0.0.0.0","port":53,"protocol":"udp","count":4}],
	 "redis_data":{"zone_cache_size":1,"zone_reload":30,"max_ttl":100,"min_ttl":5,"redis":{"address":"/run/redis.sock","net":"unix","connection":{}}},
	 "redis_stat":{"address":"x"},"handler":{}}`))
	if err != nil || !strings.Contains(string(text), "schema: z42") || !strings.Contains(string(text), "reload: 30s") {
		t.Errorf("import of z42's settings: error %v\n%s", err, text)
	}
	if all := strings.Join(remarks, "\n"); !strings.Contains(all, "/run/redis.sock") || !strings.Contains(all, "min_ttl") || !strings.Contains(all, "redis_stat") {
		t.Errorf("remarks about z42's settings:\n%s", all)
	}
	for _, bad := range []string{"", "[]", "{}", "$ORIGIN example.com."} {
		if _, _, err := Import([]byte(bad)); err == nil {
			t.Errorf("Import accepted %q", bad)
		}
	}
}

func FuzzImport(f *testing.F) {
	f.Add([]byte(redinsSettings))
	f.Add([]byte(`{"server":[7,{"ip":[],"port":"x","tls":[]}],"handler":7,"ratelimit":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		text, _, err := Import(b)
		if err != nil {
			return
		}
		var got struct{ DNS map[string]any }
		if err := yaml.Load(text, &got); err != nil {
			t.Fatalf("the settings imported from %q cannot be read: %v", b, err)
		}
	})
}
