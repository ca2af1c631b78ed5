package sqlcrun

import (
	"io/fs"
	"path"
	"strings"
)

// Others are the files that the last runs for other events.yaml files wrote for sqlc, in
// this folder and below it: the path of each to that of its events.yaml. One that is no
// longer there has none.
func Others(in Input) (map[string]string, error) {
	others := map[string]string{}
	err := fs.WalkDir(in.Root.FS(), ".", func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fs.SkipDir
		case e.IsDir() && (e.Name() == ".git" || e.Name() == "node_modules"):
			return fs.SkipDir
		case e.IsDir() || e.Name() != sumFile:
			return nil
		}
		s, ok := parseSum(in, path.Dir(p))
		base, found := projectOf(path.Dir(p), s.folder)
		config := path.Join(base, s.config)
		if !ok || !found || s.config == "" || config == in.Config {
			return nil
		}
		if _, err := in.Root.Lstat(config); err != nil {
			return nil
		}
		for file := range s.ours {
			others[path.Join(base, file)] = config
		}
		return nil
	})
	return others, err
}

// projectOf is the folder of the events.yaml from which a sum file's own folder counts.
// It is false for a sum file that was copied elsewhere.
func projectOf(at, folder string) (string, bool) {
	if at == folder {
		return ".", true
	}
	return strings.CutSuffix(at, "/"+folder)
}
