import { expect, it } from 'vitest';
import { withoutValues } from './statement-text.ts';

it.each([
  [
    `select * from t where a = 'it''s secret' and b = $1`,
    `select * from t where a = '...' and b = $1`,
  ],
  [`select 42, 3.14, a1, "b2" from t1 limit 20`, `select ?, ?, a1, "b2" from t1 limit ?`],
  ['select 1 /* user=anna */ from t -- key', 'select ? from t'],
  ['select $tag$secret$tag$ from t', 'select ...'],
  [`select "it's", 'secret', "a""b'c" from t`, `select "it's", '...', "a""b'c" from t`],
  [String.raw`select e'it\'s secret', E'a\\', 'b' from t`, `select '...', '...', '...' from t`],
  [`select 1 -- it's\nfrom t where a = 'secret'`, `select ? from t where a = '...'`],
  [String.raw`select e'not closed \' secret`, `select '...'`],
  [`select 'not closed secret`, `select '...'`],
  ['select /* not closed secret', 'select'],
])('takes the values out of %j', (text, view) => {
  expect(withoutValues(text)).toBe(view);
});
