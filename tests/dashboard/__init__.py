"""The dashboard in a real browser: Debian's chromium, without a window, driven by playwright.

browser     chromium, shared by all tests of a process, and pages that are watched
case        a broker with an admin listener, and a page that is logged in
"""
