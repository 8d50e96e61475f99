import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type OpenTestDatabase, openTestDatabase } from '../../../test/support/database.ts';
import { turnsDuring } from '../../../test/support/turns.ts';
import { StartError } from '../start-error.ts';
import { migrations } from './migrations.ts';
import { openSecretBox } from './secret-box.ts';

describe('openSecretBox', () => {
  let opened: OpenTestDatabase;
  const wrappedKey = async (): Promise<string | undefined> =>
    (
      await opened.database.query<{ wrapped: string }>({
        text: 'select wrapped from penstock.keyring',
      })
    ).rows[0]?.wrapped;

  beforeEach(async () => {
    opened = await openTestDatabase({ migrations: [{ owner: 'security', migrations }] });
  });
  afterEach(() => opened.close());

  it('opens what it sealed, also after the next start', async () => {
    const sealed = (await openSecretBox(opened.database, { masterKey: 'first key' })).seal(
      'a secret',
      'here',
    );
    const box = await openSecretBox(opened.database, { masterKey: 'first key' });
    expect(box.open(sealed, 'here')).toBe('a secret');
    expect(sealed).not.toContain('a secret');
  });

  it('refuses another context, a changed text, and a text that is not sealed', async () => {
    const box = await openSecretBox(opened.database, { masterKey: 'first key' });
    const sealed = box.seal('a secret', 'here');
    const at = sealed.length - 5;
    expect(() => box.open(sealed, 'there')).toThrow();
    expect(() =>
      box.open(
        sealed.slice(0, at) + (sealed[at] === 'A' ? 'B' : 'A') + sealed.slice(at + 1),
        'here',
      ),
    ).toThrow();
    expect(() => box.open('a secret', 'here')).toThrow();
    expect(() => box.open('v1.AAAA', 'here')).toThrow();
  });

  it('opens at once what was sealed in slices, and in slices what was sealed at once', async () => {
    const box = await openSecretBox(opened.database, { masterKey: 'first key' });
    for (const text of [
      '',
      'a',
      'é\u{1f600}'.repeat(150_000),
      `${'x'.repeat(196_606)}\u{1f600}y`,
    ]) {
      const pieces = [text.slice(0, 1), text.slice(1)];
      const sealed = (await box.sealInSlices(pieces, 'here')).toString('latin1');
      const found = [
        box.open(sealed, 'here'),
        await box.openInSlices(sealed, 'here'),
        await box.openInSlices(box.seal(text, 'here'), 'here'),
      ];
      expect(found.map((one) => one === text)).toEqual([true, true, true]);
      await expect(box.openInSlices(sealed, 'there')).rejects.toThrow();
      const end = sealed.endsWith('A') ? 'B' : 'A';
      await expect(
        box.openInSlices(`${sealed.slice(0, -2)}${end}${end}`, 'here'),
      ).rejects.toThrow();
    }
  });

  it('leaves others their turn while it seals and opens megabytes', async () => {
    const box = await openSecretBox(opened.database, { masterKey: 'first key' });
    const text = 'x'.repeat(2_000_000);
    let sealed = '';
    const turns = await turnsDuring(async () => {
      sealed = (await box.sealInSlices([text], 'here')).toString('latin1');
    });
    expect(turns).toBeGreaterThanOrEqual(10);
    expect(await turnsDuring(() => box.openInSlices(sealed, 'here'))).toBeGreaterThanOrEqual(10);
  });

  it('never seals the same text to the same form, and digests it always to the same', async () => {
    const box = await openSecretBox(opened.database, { masterKey: 'first key' });
    expect(box.seal('a secret', 'here')).not.toBe(box.seal('a secret', 'here'));
    expect(box.digest('token', 'a')).toBe(box.digest('token', 'a'));
    expect(box.digest('token', 'a')).not.toBe(box.digest('token', 'b'));
    expect(box.digest('token', 'a')).toMatch(/^[0-9a-f]{64}$/);
  });

  it('gives first starts at the same time one key', async () => {
    const boxes = await Promise.all(
      Array.from({ length: 20 }, () => openSecretBox(opened.database, { masterKey: 'first key' })),
    );
    const digests = new Set(boxes.map((box) => box.digest('token', 'test')));
    expect(digests.size).toBe(1);
  });

  it('names the variable when the key is another one, and shows no key', async () => {
    await openSecretBox(opened.database, { masterKey: 'first key' });
    const wrong = openSecretBox(opened.database, { masterKey: 'second key' });
    await expect(wrong).rejects.toThrow(StartError);
    await expect(wrong).rejects.toThrow(/MASTER_KEY/);
    await expect(wrong).rejects.not.toThrow(/second key/);
    await expect(
      openSecretBox(opened.database, { masterKey: 'first', configEncryptionKey: 'other' }),
    ).rejects.toThrow(/give CONFIG_ENCRYPTION_KEY/);
  });

  it('wraps the key again after a rotation, then needs the new master key only', async () => {
    const sealed = (await openSecretBox(opened.database, { masterKey: 'first key' })).seal(
      'a secret',
      'here',
    );
    const before = await wrappedKey();
    const rotated = await openSecretBox(opened.database, {
      masterKey: 'second key',
      masterKeyPrevious: 'first key',
    });
    expect(rotated.open(sealed, 'here')).toBe('a secret');
    expect(await wrappedKey()).not.toBe(before);
    const later = await openSecretBox(opened.database, { masterKey: 'second key' });
    expect(later.open(sealed, 'here')).toBe('a secret');
    await expect(openSecretBox(opened.database, { masterKey: 'first key' })).rejects.toThrow(
      StartError,
    );
  });

  it('moves from the master key to CONFIG_ENCRYPTION_KEY, after which the master key may change', async () => {
    const sealed = (await openSecretBox(opened.database, { masterKey: 'first key' })).seal(
      'a secret',
      'here',
    );
    await openSecretBox(opened.database, {
      masterKey: 'first key',
      configEncryptionKey: 'of its own',
    });
    const box = await openSecretBox(opened.database, {
      masterKey: 'whatever',
      configEncryptionKey: 'of its own',
    });
    expect(box.open(sealed, 'here')).toBe('a secret');
  });
});
