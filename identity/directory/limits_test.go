package directory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"shuultuur/lib/setting"
)

const suffix = "dc=school,dc=example"

func entryOf(dn string, lines ...string) string {
	return "dn: " + dn + "\n" + strings.Join(lines, "\n") + "\n\n"
}

func personOf(uid string, lines ...string) string {
	return entryOf("uid="+uid+","+suffix, append([]string{"objectClass: inetOrgPerson", "cn: " + uid, "sn: " + uid, "uid: " + uid, "userPassword: secret"}, lines...)...)
}

const top = "dn: " + suffix + "\nobjectClass: dcObject\nobjectClass: organization\ndc: school\no: school\n\n"

func directoryAt(t *testing.T, addr, bind string) *Directory {
	t.Helper()
	cfg := LDAP{Servers: setting.OneOrMore[string]{"ldap://" + addr}, Base: suffix, Bind: bind, Password: "secret"}
	d, err := NewLDAP(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// TestSomebodyInMoreGroupsThanTheServerGives: all groups are found, also those above and two of
// one name; a wrong password is a wrong password.
func TestSomebodyInMoreGroupsThanTheServerGives(t *testing.T) {
	var b strings.Builder
	b.WriteString(top + personOf("anna") + personOf("filter") + entryOf("ou=clubs,"+suffix, "objectClass: organizationalUnit", "ou: clubs"))
	for i := range 900 {
		b.WriteString(entryOf(fmt.Sprintf("cn=group %03d,%s", i, suffix), "objectClass: groupOfNames", fmt.Sprintf("cn: group %03d", i), "member: uid=anna,"+suffix))
	}
	b.WriteString(entryOf("cn=group 000,ou=clubs,"+suffix, "objectClass: groupOfNames", "cn: group 000", "member: uid=anna,"+suffix))
	b.WriteString(entryOf("cn=above,"+suffix, "objectClass: groupOfNames", "cn: above", "member: cn=group 899,"+suffix))
	addr, _, _ := slapdWith(t, suffix, b.String(), "sizelimit 500")
	d := directoryAt(t, addr, "uid=filter,"+suffix)
	if _, _, err := d.Verify(t.Context(), "anna", "guess"); !errors.Is(err, ErrRefused) {
		t.Errorf("a wrong password: %v, want ErrRefused", err)
	}
	for range 2 { // the second time it is known that the groups are too many
		user, groups, err := d.Verify(t.Context(), "anna", "secret")
		if err != nil || user != "anna" {
			t.Fatalf("Verify: %q, %v", user, err)
		}
		for _, g := range []string{"group 000", "group 499", "group 500", "group 899", "above"} {
			if !slices.Contains(groups, g) {
				t.Errorf("%d groups without %q", len(groups), g)
			}
		}
		if len(groups) != 902 {
			t.Errorf("%d groups, want 902", len(groups))
		}
	}
}

// TestPasswordPolicies: a reason that only the right password shows is a proven one.
func TestPasswordPolicies(t *testing.T) {
	addr, _, _ := slapdWith(t, suffix, top+personOf("filter")+
		entryOf("cn=strict,"+suffix, "objectClass: person", "objectClass: pwdPolicy", "cn: strict", "sn: strict", "pwdAttribute: userPassword", "pwdMaxAge: 60", "pwdMustChange: TRUE", "pwdLockout: TRUE", "pwdMaxFailure: 3")+
		personOf("old", "pwdPolicySubentry: cn=strict,"+suffix, "pwdChangedTime: 20200101000000Z")+
		personOf("new", "pwdPolicySubentry: cn=strict,"+suffix, "pwdReset: TRUE")+
		personOf("locked", "pwdPolicySubentry: cn=strict,"+suffix, "pwdAccountLockedTime: 000001010000Z")+
		personOf("good"),
		"moduleload ppolicy", "overlay ppolicy", "ppolicy_use_lockout")
	d := directoryAt(t, addr, "uid=filter,"+suffix)
	for _, tt := range []struct {
		user, password, why string
		proven              bool
	}{
		{"good", "secret", "-", false},
		{"old", "secret", PasswordExpired, true},
		{"old", "guess", "", false},
		{"new", "secret", MustChange, true},
		{"new", "guess", "", false},
		{"locked", "secret", "the account is locked", false},
	} {
		_, _, err := d.Verify(t.Context(), tt.user, tt.password)
		if tt.why == "-" {
			if err != nil {
				t.Errorf("%s: %v", tt.user, err)
			}
			continue
		}
		r, _ := errors.AsType[*Refusal](err)
		if r == nil {
			r = new(Refusal)
		}
		if !errors.Is(err, ErrRefused) || r.Why != tt.why || r.Proven != tt.proven {
			t.Errorf("%s with %q: %v (%q, proven %v); want %q, %v", tt.user, tt.password, err, r.Why, r.Proven, tt.why, tt.proven)
		}
	}
}

// TestNamesOfSeveralGroups: a cn that two groups have is none of theirs, unless it is an account's
// name.
func TestNamesOfSeveralGroups(t *testing.T) {
	group := func(dn, cn string, more ...string) string {
		return entryOf(dn+","+suffix, append([]string{"objectClass: groupOfNames", "objectClass: extensibleObject", "cn: " + cn, "member: uid=anna," + suffix}, more...)...)
	}
	addr, _, _ := slapdWith(t, suffix, top+personOf("anna")+personOf("filter")+
		entryOf("ou=clubs,"+suffix, "objectClass: organizationalUnit", "ou: clubs")+
		group("cn=teachers", "teachers")+group("cn=Teachers,ou=clubs", "Teachers")+group("cn=pupils", "pupils")+
		group("cn=staff", "staff", "sAMAccountName: staff")+group("cn=Staff,ou=clubs", "Staff", "sAMAccountName: clubstaff"))
	d := directoryAt(t, addr, "uid=filter,"+suffix)
	names := []string{"TEACHERS", "pupils", "staff", "none", "cn=teachers,ou=clubs," + suffix}
	if known := d.KnownAmbiguous(names); len(known) > 0 {
		t.Errorf("before anybody has asked: %v", known)
	}
	all, err := d.Ambiguous(t.Context(), names)
	if err != nil || len(all) != 1 || all[0].Name != "TEACHERS" || len(all[0].Entries) != 2 || !strings.Contains(all[0].Error(), "cn=teachers,") {
		t.Errorf("ambiguous names: %v, %v; want that of the teachers", all, err)
	}
	if known := d.KnownAmbiguous(names); len(known) != 1 {
		t.Errorf("afterwards %d are known", len(known))
	}
}

// TestWhatIsWrongWithOnePersonIsNoFaultOfTheDirectory: a name that two entries have, or groups that
// the server does not give, leave the server in its place and its connections open.
func TestWhatIsWrongWithOnePersonIsNoFaultOfTheDirectory(t *testing.T) {
	var b strings.Builder
	b.WriteString(top + personOf("anna") + personOf("filter") + entryOf("ou=old,"+suffix, "objectClass: organizationalUnit", "ou: old") +
		entryOf("cn=twin,"+suffix, "objectClass: inetOrgPerson", "cn: twin", "sn: twin", "uid: twin", "userPassword: secret") +
		entryOf("cn=twin,ou=old,"+suffix, "objectClass: inetOrgPerson", "cn: twin", "sn: twin", "uid: twin", "userPassword: secret"))
	addr, _, _ := slapdWith(t, suffix, b.String())
	d := directoryAt(t, addr, "uid=filter,"+suffix)
	for _, tt := range []struct {
		user, password, want string
		refused, person      bool
	}{
		{"anna", "secret", "", false, false},
		{"twin", "secret", "two entries are called so", false, true},
		{"TWIN", "guess", "two entries are called so", false, true},
		{"nobody", "secret", NoEntry, true, false},
		{"anna", "guess", "wrong name or password", true, false},
		{"anna", "secret", "", false, false},
	} {
		_, _, err := d.Verify(t.Context(), tt.user, tt.password)
		_, person := errors.AsType[*PersonError](err)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || errors.Is(err, ErrRefused) != tt.refused || person != tt.person {
			t.Errorf("%s with %q: %v", tt.user, tt.password, err)
		}
		if len(d.order.failed) > 0 {
			t.Errorf("after %s the server is left out", tt.user)
		}
		if len(d.search) != 1 {
			t.Errorf("after %s %d connections are kept", tt.user, len(d.search))
		}
		if _, err := d.Find(t.Context(), tt.user); tt.person {
			if _, person := errors.AsType[*PersonError](err); !person || errors.Is(err, ErrRefused) {
				t.Errorf("the groups of %s: %v; want that they are not known", tt.user, err)
			}
		}
	}
}
