BtotalJ
$¿ñp>7Ü>iû‚»