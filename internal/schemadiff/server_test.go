package schemadiff

import "testing"

func TestServerOf(t *testing.T) {
	for version, want := range map[string]Server{
		"8.0.19":                         {Version: [3]int{8, 0, 19}},
		"8.4.5-log":                      {Version: [3]int{8, 4, 5}},
		"10.11.18-MariaDB-0+deb12u1-log": {MariaDB: true, Version: [3]int{10, 11, 18}},
		"5.5.5-10.6.1-MariaDB-1:10.6.1":  {MariaDB: true, Version: [3]int{10, 6, 1}},
		"12.0.2-MariaDB-ubu2404":         {MariaDB: true, Version: [3]int{12, 0, 2}},
		"8.0.18":                         {},
		"5.7.44-log":                     {},
		"10.5.29-MariaDB":                {},
		"5.5.5-10.4.1-MariaDB":           {},
		"unknown":                        {},
	} {
		got, err := ServerOf(version, "NO_ZERO_DATE")
		if got != want || (err == nil) == (want == Server{}) {
			t.Errorf("%s: %+v, %v", version, got, err)
		}
	}
	for mode, want := range map[string]bool{"": false, "NO_ZERO_DATE": false, "A,STRICT_TRANS_TABLES": true, "STRICT_ALL_TABLES,B": true} {
		if got, err := ServerOf("8.4.0", mode); err != nil || got.Strict != want {
			t.Errorf("%s: %+v, %v", mode, got, err)
		}
	}
}
