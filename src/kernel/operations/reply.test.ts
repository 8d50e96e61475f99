import { expect, it } from 'vitest';
import { Reply } from './reply.ts';

it.each([
  ['/notes?a=1&b=%20c#d', '/notes?a=1&b=%20c#d'],
  ['https://app.example.com/谢谢', 'https://app.example.com/%E8%B0%A2%E8%B0%A2'],
  ['/two\r\nset-cookie: a=b', '/two%0D%0Aset-cookie:%20a=b'],
  ['/half\ud83d', '/half%EF%BF%BD'],
])('an address that no header takes leads where it says: %j', (address, location) => {
  expect(Reply.redirect(address)).toMatchObject({ status: 302, headers: { location } });
});
