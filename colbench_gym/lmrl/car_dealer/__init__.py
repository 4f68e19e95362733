"""Car Dealer: the game, its scripted buyer and its sellers."""
