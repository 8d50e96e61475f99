/** Where users sign in from: remembered, so that a sign-in from somewhere new is told to the owner (ASVS 6.3.5). */
import type { Database, Transaction } from '../../../kernel/database/database.ts';
import { addressKey } from '../../../kernel/operations/limits.ts';
import type { AuthenticationConfig } from '../config.ts';
import { isKnownAddress, noteDevice } from '../device-queries.ts';
import type { Credentials } from '../queries.ts';
import { deviceName } from './device-name.ts';
import type { Notices } from './notices.ts';
import type { Origin } from './origin.ts';

export interface Devices {
  /** For the transaction of a complete sign-in. Tells the owner by mail when neither the first nor a known device was used. */
  signedIn(transaction: Transaction, account: Credentials, origin: Origin): Promise<void>;
  /** Whether the owner of an account signed in from this address before. `name`: as at login. */
  knows(name: string, address: string): Promise<boolean>;
}

interface Dependencies {
  readonly database: Database;
  readonly notices: Notices;
  readonly config: () => AuthenticationConfig;
}

export const createDevices = ({ database, notices, config }: Dependencies): Devices => ({
  async signedIn(transaction, account, { address, userAgent }) {
    const device = deviceName(userAgent);
    const place = { device, network: networkOf(address), address: addressKey(address) };
    const { known, others } = await noteDevice(transaction, { userId: account.userId, ...place });
    if (known || !others || !config().sessions.newDeviceNotice) return;
    await notices.send(transaction, account, 'NewDevice', { device, address, time: new Date().toISOString() });
  },
  knows: (name, address) => isKnownAddress(database, name, addressKey(address)),
});

/** About what one provider gives to one region: people move within it. IPv4 /16, IPv6 /32. */
function networkOf(address: string): string {
  const [first = '', second = ''] = addressKey(address).split(/[.:]/);
  return `${first}.${second}`;
}
