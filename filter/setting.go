package filter

// A SettingError is a mistake in the settings. Key is the path to it in the
// settings file, such as "policies[0].rules[2].action"; whoever read the file
// turns it into a line number.
type SettingError struct {
	Key string
	Err error
}

func (e *SettingError) Error() string { return e.Key + ": " + e.Err.Error() }
func (e *SettingError) Unwrap() error { return e.Err }

// Setting says that err is about key. An err that already names a key below
// this one keeps it: Setting("rules[2]", Setting("action", err)) is about
// "rules[2].action". A nil err gives nil.
func Setting(key string, err error) error {
	if err == nil {
		return nil
	}
	if inner, ok := err.(*SettingError); ok { //nolint:errorlint // not one that is wrapped: its words would be lost
		if inner.Key != "" && inner.Key[0] != '[' {
			key += "."
		}
		return &SettingError{Key: key + inner.Key, Err: inner.Err}
	}
	return &SettingError{Key: key, Err: err}
}
