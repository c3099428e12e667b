"""`miniapps reproduce`: published figures and claims, measured again on this machine."""
