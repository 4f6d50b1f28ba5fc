package directory

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/go-ldap/ldap/v3"
)

// Directories say in attributes of their own when a password was last changed, and that an account signs
// nobody in any more.
var (
	// changed are those with the last change of a password: Active Directory and Samba as domain controller,
	// OpenLDAP and others with a password policy, FreeIPA, Samba as a member of one, POSIX accounts.
	changed = []string{"pwdLastSet", "pwdChangedTime", "krbLastPwdChange", "sambaPwdLastSet", "shadowLastChange"}
	// standing are all that [stampOf] and [isDisabled] read.
	standing = append([]string{"userAccountControl", "accountExpires", "nsAccountLock", "pwdAccountLockedTime", "loginDisabled"}, changed...)
)

// stampOf returns a stamp of the password of an entry, "" if nothing says when it was changed.
func stampOf(e *ldap.Entry) string {
	for _, a := range changed {
		if v := e.GetAttributeValue(a); v != "" {
			sum := sha256.Sum256([]byte(a + "=" + v))
			return hex.EncodeToString(sum[:8])
		}
	}
	return ""
}

// isDisabled reports whether the account of an entry is disabled or has expired. One that is locked for a
// while, after wrong passwords, is not.
func isDisabled(e *ldap.Entry, now time.Time) bool {
	const (
		disabled = 2               // of userAccountControl ([MS-ADTS] 2.2.16)
		never    = 1<<63 - 1       // accountExpires, as 0
		epoch    = 11_644_473_600  // seconds from 1601, with which Windows begins, to 1970
		tick     = 10_000_000      // of Windows, in a second
		forGood  = "000001010000Z" // pwdAccountLockedTime of an account that an administrator has locked
	)
	control, _ := strconv.ParseInt(e.GetAttributeValue("userAccountControl"), 10, 64)
	expires, err := strconv.ParseInt(e.GetAttributeValue("accountExpires"), 10, 64)
	switch {
	case control&disabled != 0, e.GetAttributeValue("pwdAccountLockedTime") == forGood:
		return true
	case strings.EqualFold(e.GetAttributeValue("nsAccountLock"), "TRUE"), strings.EqualFold(e.GetAttributeValue("loginDisabled"), "TRUE"):
		return true
	}
	return err == nil && expires != 0 && expires != never && expires/tick-epoch <= now.Unix()
}
