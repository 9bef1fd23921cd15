module example.com/extstore

go 1.26.0

require github.com/stevedore-bus/stevedore v0.0.0

require (
	github.com/gabriel-vasile/mimetype v1.4.16 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/itchyny/gojq v0.12.20 // indirect
	github.com/itchyny/timefmt-go v0.1.9 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/rs/zerolog v1.35.1 // indirect
	github.com/tidwall/gjson v1.18.0 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.1 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/stevedore-bus/stevedore => ../../..
