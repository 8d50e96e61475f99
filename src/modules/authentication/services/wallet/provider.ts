/** The provider under which wallet addresses are linked to accounts; also the name of this way to sign in. */
export const walletProvider = 'metamask';
