/** Addresses and signatures that the standards and other software name. */
import { expect, test } from 'vitest';
import { createTestWallet } from '../../../../../test/support/wallet.ts';
import { checksummed, readAddress, signerOf } from './wallet-sign-in.ts';

// The examples of EIP-55.
test.each([
  '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
  '0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359',
  '0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB',
  '0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb',
])('%s is read with its checksum, in lower case and in upper case', async (address) => {
  const lower = address.toLowerCase();
  expect(await checksummed(lower)).toBe(address);
  for (const text of [address, lower, `0x${address.slice(2).toUpperCase()}`])
    expect(await readAddress(text)).toBe(lower);
});

test.each([
  ['a letter of the wrong case', '0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed'],
  ['a digit too few', '0x5aaeb6053f3e94c9b9a09f33669435e7ef1beae'],
  ['no prefix', '5aaeb6053f3e94c9b9a09f33669435e7ef1beaed'],
  ['no hexadecimal digits', `0x${'z'.repeat(40)}`],
  ['nothing', ''],
])('an address with %s is none', async (_what, text) => {
  expect(await readAddress(text)).toBeUndefined();
});

// The key, text and signature of the documentation of web3.eth.accounts.sign.
test('a signature of other software names its signer', async () => {
  const key = '4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318';
  const signature =
    '0xb91467e570a6466aa9e9876cbcd013baba02900b8979d43fe208a4a4f339f5fd6007e74cd82e037b800186422fc2da167c747ef045e5d18a5f5d4300f8e1a0291c';
  const address = '0x2c7536e3605d9c16a7a3d7b1898e529396a65c23';
  expect(await signerOf('Some data', signature)).toBe(address);
  expect(createTestWallet(key)).toMatchObject({ address });
  expect(createTestWallet(key).sign('Some data')).toBe(signature);
});
