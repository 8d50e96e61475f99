import { expect, it } from 'vitest';
import { turnsDuring } from '../../../test/support/turns.ts';
import { parseLargeBody } from './body.ts';

const json = (text: string) => ({ type: 'json', bytes: Buffer.from(text) }) as const;

it('leaves others their turn between the text of a large body and its values', async () => {
  let parsed: unknown;
  const turns = await turnsDuring(async () => {
    parsed = await parseLargeBody(json('\ufeff{"a":["é"]}'));
  });
  expect(parsed).toEqual({ body: { a: ['é'] }, form: undefined });
  expect(turns).toBeGreaterThanOrEqual(1);
});

it('says what is wrong with a large body, and takes a form as it is', async () => {
  const malformed = { status: 400, code: 'JSON_MALFORMED' };
  await expect(parseLargeBody(json('{"a":'))).rejects.toMatchObject(malformed);
  const bytes = Buffer.from([0x22, 0xff, 0x22]);
  await expect(parseLargeBody({ type: 'json', bytes })).rejects.toMatchObject(malformed);
  const form = { type: 'form', bytes: Buffer.from('a=1') } as const;
  expect(await parseLargeBody(form)).toEqual({ body: undefined, form: 'a=1' });
});
