package directory

import (
	"slices"
	"testing"

	"github.com/go-ldap/ldap/v3"
)

// TestGroupsOfOneNameAreTwoGroups: a cn names a group only where it is the only one.
func TestGroupsOfOneNameAreTwoGroups(t *testing.T) {
	group := func(dn, cn, account string) *ldap.Entry {
		attributes := map[string][]string{"cn": {cn}}
		if account != "" {
			attributes["sAMAccountName"] = []string{account}
		}
		return ldap.NewEntry(dn, attributes)
	}
	all := []*ldap.Entry{
		group("cn=teachers,ou=groups,dc=x", "teachers", ""),
		group("CN=Teachers, OU=clubs, DC=x", "Teachers", ""),
		group("cn=pupils,ou=groups,dc=x", "pupils", ""),
		group("cn=Staff,ou=groups,dc=x", "Staff", "Staff"),
		group("cn=Staff,ou=clubs,dc=x", "Staff", "ClubStaff"),
		group("cn=Choir,ou=clubs,dc=x", "Choir", "choir-1"),
	}
	want := [][]string{
		{"cn=teachers,ou=groups,dc=x"}, {"cn=teachers,ou=clubs,dc=x"}, {"pupils"},
		{"Staff", "cn=staff,ou=groups,dc=x"}, {"ClubStaff", "cn=staff,ou=clubs,dc=x"}, {"choir-1", "Choir"},
	}
	for i, got := range namesOf(all) {
		if !slices.Equal(got, want[i]) {
			t.Errorf("%s has the names %q, want %q", all[i].DN, got, want[i])
		}
	}
}

const clubs = people + `
dn: ou=clubs,dc=school,dc=example
objectClass: organizationalUnit
ou: clubs

dn: cn=teachers,dc=school,dc=example
objectClass: groupOfNames
cn: teachers
member: uid=otto,dc=school,dc=example

dn: cn=teachers,ou=clubs,dc=school,dc=example
objectClass: groupOfNames
cn: teachers
member: uid=bold,dc=school,dc=example
`

func TestAClubIsNotTheGroupOfItsName(t *testing.T) {
	at, _, _ := slapdWith(t, "dc=school,dc=example", clubs)
	d, err := NewLDAP(LDAP{Servers: []string{"ldap://" + at}, Base: "dc=school,dc=example", Bind: "cn=admin,dc=school,dc=example", Password: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	found, err := d.Find(t.Context(), "BOLD")
	user, groups := found.User, found.Groups
	slices.Sort(groups)
	if want := []string{"class 7", "cn=teachers,ou=clubs,dc=school,dc=example", "everyone", "pupils"}; err != nil || user != "bold" || !slices.Equal(groups, want) {
		t.Errorf("BOLD is %q in %q (%v), want bold in %q", user, groups, err, want)
	}
}

// TestAUserOfFreeIPAIsOne: its compatibility tree has each user a second time.
func TestAUserOfFreeIPAIsOne(t *testing.T) {
	entry := func(dn string) *ldap.Entry { return ldap.NewEntry(dn, nil) }
	const own, other, copied = "uid=anna,cn=users,cn=accounts,dc=x", "uid=anna,ou=old,dc=x", "uid=anna,cn=users,cn=compat,dc=x"
	for name, tt := range map[string]struct{ all, want []*ldap.Entry }{
		"none":          {nil, nil},
		"one":           {[]*ldap.Entry{entry(own)}, []*ldap.Entry{entry(own)}},
		"a copy":        {[]*ldap.Entry{entry(copied), entry(own)}, []*ldap.Entry{entry(own)}},
		"only the copy": {[]*ldap.Entry{entry(copied)}, []*ldap.Entry{entry(copied)}},
		"two people":    {[]*ldap.Entry{entry(own), entry(other)}, []*ldap.Entry{entry(own), entry(other)}},
		"written apart": {[]*ldap.Entry{entry("uid=anna, CN=Users, CN=Compat, DC=x"), entry(own)}, []*ldap.Entry{entry(own)}},
		"a like name":   {[]*ldap.Entry{entry("uid=anna,cn=compatible,dc=x"), entry(own)}, []*ldap.Entry{entry("uid=anna,cn=compatible,dc=x"), entry(own)}},
	} {
		got := withoutCopies(tt.all)
		if !slices.EqualFunc(got, tt.want, func(a, b *ldap.Entry) bool { return a.DN == b.DN }) {
			t.Errorf("%s: %d entries are left, want %d", name, len(got), len(tt.want))
		}
	}
}

// TestImplicitNames: an account of Active Directory has the domain's name, too; one of another domain,
// or of another directory, has not.
func TestImplicitNames(t *testing.T) {
	for base, tt := range map[string]struct{ name, want string }{
		"dc=school,dc=example":            {"anna@SCHOOL.example", "anna"},
		"OU=Pupils, DC=school,DC=example": {"anna@school.example", "anna"},
		"dc=sub,dc=school,dc=example":     {"anna@school.example", ""},
		"dc=school,dc=EXAMPLE":            {"anna", ""},
		"dc=School,dc=example":            {"@school.example", ""},
		"o=school.example":                {"anna@school.example", ""},
		"o=school":                        {"anna@", ""},
		"no name":                         {"anna@school.example", ""},
	} {
		if got := (&Directory{cfg: LDAP{Base: base}}).implicit(tt.name); got != tt.want {
			t.Errorf("%s below %s: %q, want %q", tt.name, base, got, tt.want)
		}
	}
}
