package directory

import (
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
)

// TestWhoIsDisabled: by the attributes of several directories.
func TestWhoIsDisabled(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		attributes map[string][]string
		want       bool
	}{
		"nothing is said":           {nil, false},
		"normal, Windows":           {map[string][]string{"userAccountControl": {"512"}, "accountExpires": {"0"}}, false},
		"disabled, Windows":         {map[string][]string{"userAccountControl": {"514"}}, true},
		"and more bits":             {map[string][]string{"userAccountControl": {"66050"}}, true},
		"never expires":             {map[string][]string{"userAccountControl": {"512"}, "accountExpires": {"9223372036854775807"}}, false},
		"expired":                   {map[string][]string{"accountExpires": {"134220672000000000"}}, true},  // 2026-04-30
		"expires":                   {map[string][]string{"accountExpires": {"134223264000000000"}}, false}, // 2026-05-03
		"no number":                 {map[string][]string{"userAccountControl": {"x"}, "accountExpires": {"soon"}}, false},
		"locked, 389 and FreeIPA":   {map[string][]string{"nsAccountLock": {"true"}}, true},
		"unlocked":                  {map[string][]string{"nsAccountLock": {"FALSE"}}, false},
		"locked for good, OpenLDAP": {map[string][]string{"pwdAccountLockedTime": {"000001010000Z"}}, true},
		"for wrong passwords":       {map[string][]string{"pwdAccountLockedTime": {"20260501115900Z"}}, false},
		"eDirectory":                {map[string][]string{"loginDisabled": {"TRUE"}}, true},
	} {
		if got := isDisabled(ldap.NewEntry("uid=anna", tt.attributes), now); got != tt.want {
			t.Errorf("%s: disabled: %v, want %v", name, got, tt.want)
		}
	}
}

// TestADirectorySaysWhatEndsASignIn: slapd with a password policy, whose people change passwords and are
// locked while we look.
func TestADirectorySaysWhatEndsASignIn(t *testing.T) {
	addr, _, _ := slapdWith(t, suffix, top+personOf("filter")+
		entryOf("cn=strict,"+suffix, "objectClass: person", "objectClass: pwdPolicy", "cn: strict", "sn: strict", "pwdAttribute: userPassword")+
		personOf("anna", "pwdPolicySubentry: cn=strict,"+suffix, "pwdChangedTime: 20200101000000Z")+personOf("otto"),
		"moduleload ppolicy", "overlay ppolicy")
	d := directoryAt(t, addr, "uid=filter,"+suffix)
	find := func(user string) Found {
		t.Helper()
		f, err := d.Find(t.Context(), user)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	c, err := ldap.DialURL("ldap://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Bind("cn=admin,"+suffix, "admin"); err != nil {
		t.Fatal(err)
	}
	change := func(attribute, value string) {
		t.Helper()
		q := ldap.NewModifyRequest("uid=anna,"+suffix, nil)
		q.Replace(attribute, []string{value})
		if err := c.Modify(q); err != nil {
			t.Fatal(err)
		}
	}
	before := find("anna")
	if before.Stamp == "" || before.Disabled || find("anna").Stamp != before.Stamp {
		t.Fatalf("anna is %+v", before)
	}
	if f := find("otto"); f.Stamp != "" || f.Disabled {
		t.Errorf("of otto, whose password never changed, the directory says %+v", f)
	}
	change("userPassword", "another")
	after := find("anna")
	if after.Stamp == "" || after.Stamp == before.Stamp || after.Disabled {
		t.Errorf("with another password anna is %+v, and was %+v", after, before)
	}
	change("pwdAccountLockedTime", "000001010000Z")
	if f := find("anna"); !f.Disabled || f.Stamp != after.Stamp {
		t.Errorf("locked by an administrator anna is %+v", f)
	}
}
