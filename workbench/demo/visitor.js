// Keeps a visitor's random number in a cookie, where there is none yet, so that a reload finds the vote again.
export default function ({ data }) {
  const known = document.cookie.split("; ").some((each) => each.startsWith(`${data.cookie}=`));
  if (!known) document.cookie = `${data.cookie}=${data.visitor}; Path=/; SameSite=Strict; Max-Age=31536000`;
}
