open("OWNED", "w").close()
