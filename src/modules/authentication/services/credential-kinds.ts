/** Every kind of credential beside password and sessions, and how those of a user are deleted. */
import type { Transaction } from '../../../kernel/database/database.ts';
import { deleteDeviceKeysOf } from '../device-key-queries.ts';
import { deleteSecondFactor } from '../factor-queries.ts';
import { deleteIdentitiesOf, dropFactors } from '../identity-queries.ts';
import { deletePasskeysOf } from '../passkey-queries.ts';

/** A new kind is named here, and does not compile until somebody says how it goes. */
type CredentialKind = 'factorFields' | 'secondFactor' | 'identities' | 'passkeys' | 'deviceKeys';

const deletions: Readonly<Record<CredentialKind, (transaction: Transaction, userId: string) => Promise<unknown>>> = {
  factorFields: dropFactors,
  secondFactor: deleteSecondFactor,
  // At other providers, and wallets.
  identities: deleteIdentitiesOf,
  passkeys: deletePasskeysOf,
  deviceKeys: deleteDeviceKeysOf,
};

/** Takes away everything with which somebody could still get into the account. */
export async function deleteCredentials(transaction: Transaction, userId: string): Promise<void> {
  for (const remove of Object.values(deletions)) await remove(transaction, userId);
}
