package kerberos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"

	"github.com/jcmturner/gokrb5/v8/iana/adtype"
	"github.com/jcmturner/gokrb5/v8/pac"
	"github.com/jcmturner/gokrb5/v8/types"
)

const (
	maxBuffers  = 64
	logonInfo   = 1 // PAC buffer with the user and its groups
	maxGroupIDs = 2000
)

// account returns the name of the account and the SIDs of the groups that Active Directory wrote
// into a ticket, or none if another KDC issued it. The PAC is signed with our key.
func account(data types.AuthorizationData, key types.EncryptionKey) (name string, groups []string, err error) {
	for _, outer := range data {
		if outer.ADType != adtype.ADIfRelevant {
			continue
		}
		var inner types.AuthorizationData
		if err := inner.Unmarshal(outer.ADData); err != nil {
			continue // optional data that we do not understand
		}
		for _, e := range inner {
			if e.ADType == adtype.ADWin2KPAC {
				return logon(e.ADData, key)
			}
		}
	}
	return "", nil, nil
}

func logon(data []byte, key types.EncryptionKey) (name string, groups []string, err error) {
	some, err := hasLogon(data)
	if err != nil || !some {
		return "", nil, err
	}
	var p pac.PACType
	if err := p.Unmarshal(data); err != nil {
		return "", nil, err
	}
	if err := p.ProcessPACInfoBuffers(key, log.New(io.Discard, "", 0)); err != nil {
		return "", nil, err
	}
	if p.KerbValidationInfo == nil {
		return "", nil, nil
	}
	all := p.KerbValidationInfo.GetGroupMembershipSIDs()
	if len(all) > maxGroupIDs {
		return "", nil, fmt.Errorf("%d groups, at most %d are read", len(all), maxGroupIDs)
	}
	return p.KerbValidationInfo.EffectiveName.Value, all, nil
}

// hasLogon reports whether a PAC names groups, and checks that its parts are within
// it. The KDC of MIT writes a PAC without groups.
func hasLogon(data []byte) (some bool, err error) {
	bad := errors.New("its parts do not lie in it")
	if len(data) < 8 {
		return false, bad
	}
	n := binary.LittleEndian.Uint32(data)
	if n > maxBuffers || len(data) < 8+16*int(n) {
		return false, bad
	}
	for i := range int(n) {
		b := data[8+16*i:]
		size, at := uint64(binary.LittleEndian.Uint32(b[4:])), binary.LittleEndian.Uint64(b[8:])
		if at > uint64(len(data)) || size > uint64(len(data))-at {
			return false, bad
		}
		some = some || binary.LittleEndian.Uint32(b) == logonInfo
	}
	return some, nil
}
