import { expect, test } from 'vitest';
import { deviceName } from './origin.ts';

test.each([
  [
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36',
    'Chrome on Windows',
  ],
  [
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36 Edg/126.0',
    'Edge on Windows',
  ],
  [
    'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1',
    'Safari on iPhone',
  ],
  ['Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0', 'Firefox on Linux'],
  ['okhttp/4.12.0', 'okhttp'],
  ['', 'Unknown device'],
  [undefined, 'Unknown device'],
  ['<script>alert(1)</script>', 'Unknown device'],
  ['a'.repeat(100_000), 'a'.repeat(40)],
])('%.60s', (userAgent, name) => {
  expect(deviceName(userAgent)).toBe(name);
});
