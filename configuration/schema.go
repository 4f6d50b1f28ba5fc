package configuration

import (
	"encoding/json"
	"io/fs"

	"shuultuur/setting"
)

// Schema returns the JSON schema of the settings file, with what the tables in
// the pages of manual say of each key.
func Schema(manual fs.FS) ([]byte, error) {
	rows, err := setting.Manual(manual)
	if err != nil {
		return nil, err
	}
	words := map[string]setting.Row{}
	for _, r := range rows {
		words[r.Key] = r
	}
	return json.MarshalIndent(setting.Schema(&Settings{}, words), "", " ")
}
