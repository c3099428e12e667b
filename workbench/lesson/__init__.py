"""`miniapps lesson`: hands out exercises, checks answers, and says what is wrong with them."""
