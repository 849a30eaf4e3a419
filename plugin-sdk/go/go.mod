module project

go 1.25
