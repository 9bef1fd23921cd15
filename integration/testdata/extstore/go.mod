module example.com/extstore

go 1.26.1

require github.com/stevedore-bus/stevedore v0.0.0

replace github.com/stevedore-bus/stevedore => ../../..
