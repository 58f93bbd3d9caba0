
BchosenJû/